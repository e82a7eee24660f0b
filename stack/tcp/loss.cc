#include "stack/tcp/loss.h"

#include <algorithm>

#include "stack/tcp/ecn.h"
#include "stack/tcp/path_mtu.h"
#include "stack/tcp/prr.h"
#include "stack/tcp/state_table.h"
#include "stack/tcp/timers.h"
#include "stack/tcp/undo.h"

namespace lyre::tcp {

namespace {

constexpr uint32_t kDupThresh = 3;             ///< RFC 5681 3.2, RFC 6675, RFC 8985
constexpr uint8_t kReorderPersistRounds = 16;  ///< RFC 8985 6.2 step 4
constexpr uint8_t kReorderMultMax = 20;
/// An ACK looks at so many records that may still be lost, but not yet. RFC 8985 looks at all: then
/// a peer that widens the reordering window makes every ACK cost a window of records.
constexpr uint32_t kUndueRecordsMax = 32;
/// An ACK forgets the SACKs of so many records: a peer can cause that again and again. What the
/// receiver discarded behind them is found when SND.UNA reaches it.
constexpr uint32_t kForgottenRecordsMax = 256;

/// Result of a scan: records that RACK marked lost, and how long to wait for the next (zero: no
/// wait).
struct RackScan {
  uint32_t marked_count = 0;
  Nanos wait{0};
};

/// RFC 8985 6.2 step 4.
Nanos reorder_window(const Connection& c) {
  const RecoveryState& recovery = c.recovery;
  const bool saw_many = c.snd.sent.sacked_bytes > (kDupThresh - 1) * c.snd.mss_bytes;
  if (!recovery.saw_reordering && (c.is_repairing() || saw_many)) {
    return nanos(0);
  }
  return earlier(c.rtt.rtt_min * recovery.reorder_mult / 4, c.rtt.srtt);
}

/// RFC 8985 6.2 step 4, adaptation: each round with a DSACK widens the window by a quarter RTT.
void adapt_reorder_window(Connection& c, bool has_dsack) {
  RecoveryState& recovery = c.recovery;
  if (recovery.has_dsack_round && c.snd.una.at_or_after(recovery.dsack_round)) {
    recovery.has_dsack_round = false;
  }
  if (!has_dsack || recovery.has_dsack_round) return;
  recovery.has_dsack_round = true;
  recovery.dsack_round = c.snd.nxt;
  recovery.reorder_mult = std::min<uint8_t>(recovery.reorder_mult + 1, kReorderMultMax);
  recovery.reorder_persist = kReorderPersistRounds;
}

bool was_sent_before_rack(const Connection& c, const SentRecord& record) {
  const RecoveryState& recovery = c.recovery;
  if (record.sent_at != recovery.rack_sent_at) return record.sent_at < recovery.rack_sent_at;
  return record.end.before(recovery.rack_end);
}

/// RFC 8985 6.2 step 5. The list is in order of sending, so the scan ends at the first record that
/// was sent too recently. The wait is that of the last record before it; when there are many, that
/// of a record sent with the one that RACK knows as delivered.
RackScan scan_rack(Core& core, Connection& c, Nanos now) {
  RackScan scan;
  if (!c.recovery.rack_valid) return scan;
  Scoreboard board(core, c);
  const Nanos patience = c.recovery.rack_rtt + reorder_window(c);
  uint32_t undue_count = 0;
  for (uint32_t index = board.first_in_time(); index != kNoNode;) {
    const SentRecord& record = board[index];
    if (!was_sent_before_rack(c, record)) break;
    if (undue_count == kUndueRecordsMax) {
      scan.wait = c.recovery.rack_sent_at + patience - now;
      break;
    }
    const uint32_t next = record.queue_next;
    const Nanos remaining = record.sent_at + patience - now;
    if (remaining <= nanos(0)) {
      // RFC 4821 7.6.2, RFC 8899 3: the loss of a path probe is no sign of congestion.
      const bool is_probe = is_path_probe(c, record);
      if (is_probe) c.snd.must_retransmit = true;
      board.mark_lost(index);
      scan.marked_count += is_probe ? 0 : 1;
    } else {
      scan.wait = later(scan.wait, remaining);
      ++undue_count;
    }
    index = next;
  }
  return scan;
}

/// RFC 5681 3.2 and RFC 6582: without SACK, three duplicate ACKs or a partial ACK mark the front
/// lost.
uint32_t scan_newreno(Core& core, Connection& c, const AckOutcome& outcome) {
  Scoreboard board(core, c);
  const bool is_partial = c.recovery.phase == RecoveryPhase::kFastRecovery &&
                          outcome.acked_bytes > 0 && c.snd.una.before(c.recovery.recover);
  const bool is_third = outcome.is_duplicate() && c.snd.dup_acks == kDupThresh &&
                        !c.is_repairing() &&
                        c.snd.una.after(c.recovery.recover);  // RFC 6582 3.2 step 2
  const uint32_t front = c.snd.sent.seq_head;
  if (!(is_partial || is_third) || front == kNoNode) return 0;
  if (board[front].place != SentRecord::Place::kInFlight) return 0;
  board.mark_lost(board.split_front(front, c.snd.mss_bytes));
  if (is_partial) c.snd.must_retransmit = true;
  return 1;
}

/// RFC 6937 3, DeliveredData without SACK: one segment for each duplicate ACK; a later cumulative
/// ACK counts only the remainder.
void count_duplicates(Connection& c, const AckOutcome& outcome, AckSample& sample) {
  SendState& snd = c.snd;
  const uint32_t dup_before = snd.dup_bytes;
  if (outcome.is_duplicate()) {
    if (snd.dup_acks < UINT8_MAX) ++snd.dup_acks;
    // RFC 5681 3.2 inflates cwnd for each duplicate ACK; subtracting it from the pipe is
    // equivalent.
    const uint32_t outside = snd.nxt.since(snd.una) - snd.sent.lost_bytes;
    snd.dup_bytes = std::min<uint32_t>(snd.dup_bytes + snd.mss_bytes, outside);
    sample.delivered_bytes += snd.dup_bytes - std::min(dup_before, snd.dup_bytes);
  } else if (outcome.acked_bytes > 0) {
    snd.dup_acks = 0;
    const uint32_t explained =
        outcome.acked_bytes > snd.mss_bytes ? outcome.acked_bytes - snd.mss_bytes : 0;
    snd.dup_bytes -= std::min(snd.dup_bytes, explained);
    if (!c.is_repairing()) snd.dup_bytes = 0;
    sample.delivered_bytes -= std::min(sample.delivered_bytes, dup_before - snd.dup_bytes);
  }
}

void enter_fast_recovery(Core& core, Connection& c, const AckOutcome& outcome) {
  RecoveryState& recovery = c.recovery;
  const bool is_first = recovery.phase == RecoveryPhase::kOpen;
  if (is_first || traits_of(c.cc.algorithm).reduces_for_loss_after_mark) {
    remember_before_reduction(core, c);
    begin_reduction(c, outcome.pipe_before_bytes);
    congestion_on_loss(c.cc, outcome.flight_size_before_bytes);
  }
  recovery.phase = RecoveryPhase::kFastRecovery;
  recovery.recover = c.snd.nxt;
  recovery.tail_probe_open = false;
  c.snd.must_retransmit = true;
  ++c.fast_recoveries;
  c.changes.add(Change::kFastRecovery);
}

void enter_ecn_reduction(Core& core, Connection& c, const AckOutcome& outcome) {
  forget_reduction(core, c);  // a reduction for a mark is never spurious
  begin_reduction(c, outcome.pipe_before_bytes);
  congestion_on_ecn(c.cc, outcome.flight_size_before_bytes);
  c.recovery.phase = RecoveryPhase::kEcnReduction;
  c.recovery.recover = c.snd.nxt;
  ++c.ecn_reductions;
  c.changes.add(Change::kEcnReduction);
}

/// The window in which congestion was detected has been acknowledged. A phase that a mark started
/// ends one byte later: then the peer has received the CWR, so that a later echo is for a new mark.
bool is_phase_over(const Connection& c) {
  const RecoveryState& recovery = c.recovery;
  if (recovery.phase == RecoveryPhase::kOpen) return false;
  if (recovery.phase == RecoveryPhase::kEcnReduction) return c.snd.una.after(recovery.recover);
  return c.snd.una.at_or_after(recovery.recover);
}

void leave_recovery(Connection& c) {
  RecoveryState& recovery = c.recovery;
  const bool was_repairing = c.is_repairing();
  if (recovery.phase != RecoveryPhase::kTimeoutRecovery) c.cc.cwnd_bytes = c.cc.ssthresh_bytes;
  recovery.phase = RecoveryPhase::kOpen;
  c.snd.dup_bytes = 0;
  c.snd.dup_acks = 0;
  c.changes.add(Change::kRecovered);
  if (!was_repairing) return;
  // RFC 8985 6.2 step 4: a widened window is kept for 16 recoveries.
  if (recovery.reorder_persist > 0 && --recovery.reorder_persist == 0) recovery.reorder_mult = 1;
}

/// RFC 8985 7.4.2: whether the tail loss probe repaired a loss that no other evidence shows.
/// Returns true when the ACK reports that both the segment and its probe arrived: that DSACK is no
/// evidence of reordering.
bool settle_tail_probe(Core& core, Connection& c, const AckSample& sample,
                       const AckOutcome& outcome) {
  RecoveryState& recovery = c.recovery;
  if (outcome.ack.before(recovery.tail_probe_end)) return false;
  const bool is_reported = sample.has_dsack && sample.dsack.end == recovery.tail_probe_end;
  const bool is_plain_duplicate = outcome.ack == recovery.tail_probe_end && outcome.is_repeated &&
                                  sample.delivered_bytes == 0 && !sample.has_dsack;
  if (!recovery.tail_probe_is_retransmit || is_reported || is_plain_duplicate) {
    recovery.tail_probe_open = false;
    return is_reported;
  }
  if (!outcome.ack.after(recovery.tail_probe_end)) return false;
  recovery.tail_probe_open = false;
  if (recovery.phase != RecoveryPhase::kOpen) return false;  // this window was already reduced
  forget_reduction(core, c);
  congestion_on_loss(c.cc, outcome.flight_size_before_bytes);
  c.ecn.owes_cwr = may_set_ect(c);
  recovery.recover = c.snd.nxt;
  c.cc.cwnd_bytes = std::min(c.cc.cwnd_bytes, c.cc.ssthresh_bytes);
  return false;
}

void grow_window(Connection& c, const AckSample& sample, const AckOutcome& outcome, Nanos now) {
  if (outcome.acked_bytes == 0) return;
  if (c.snd.is_cwnd_limited && c.snd.una.after(c.snd.cwnd_limited_end)) {
    c.snd.is_cwnd_limited = false;
  }
  // In slow start a window counts as used when half of it was, as in Linux: the flight size of a
  // round is measured before it has grown.
  const bool is_limited =
      c.snd.is_cwnd_limited ||
      (c.cc.is_slow_start() && uint64_t{2} * outcome.pipe_before_bytes > c.cc.cwnd_bytes);
  congestion_on_ack(c.cc,
                    {.delivered_bytes = std::min(outcome.acked_bytes, sample.delivered_bytes),
                     .is_cwnd_limited = is_limited,
                     .srtt = c.rtt.srtt,
                     .rtt = sample.rtt,
                     .una = c.snd.una,
                     .nxt = c.snd.nxt},
                    now);
}

/// RFC 6582 3.2 and RFC 3168 6.1.2 compare SND.UNA with `recover` long after the last recovery, so
/// `recover` must not fall behind by half the sequence space.
void keep_recover_near(Connection& c) {
  if (c.snd.una.after(c.recovery.recover)) c.recovery.recover = c.snd.una - 1;
}

/// RFC 3168 6.1.2: one reduction per window, whether for echoes or for an echo and a loss.
void react_to_echo(Core& core, Connection& c, const AckOutcome& outcome) {
  congestion_note_ecn(c.cc, {.acked_bytes = outcome.acked_bytes,
                             .has_echo = outcome.has_echo,
                             .ack = outcome.ack,
                             .nxt = c.snd.nxt});
  const bool is_new =
      c.recovery.phase == RecoveryPhase::kOpen && c.snd.una.after(c.recovery.recover);
  if (outcome.has_echo && is_new) enter_ecn_reduction(core, c, outcome);
}

/// RFC 2018 8: a cumulative ACK of a receiver that follows RFC 9293 does not stop at bytes that it
/// still has, and ACKs that change places do not look like it: the number of one that was sent
/// before a SACK is no higher.
uint32_t scan_discarded(Core& core, Connection& c) {
  Scoreboard board(core, c);
  if (!board.has_discarded_front()) return 0;
  board.forget_sacks(kForgottenRecordsMax);
  c.snd.must_retransmit = true;
  return 1;
}

uint32_t find_losses(Core& core, Connection& c, const AckOutcome& outcome, Nanos now) {
  if (!c.has_sack) return scan_newreno(core, c, outcome);
  const uint32_t discarded_count = scan_discarded(core, c);
  const RackScan scan = scan_rack(core, c, now);
  c.deadline(Timer::kReorder) = scan.wait > nanos(0) ? now + scan.wait : kNever;
  return discarded_count + scan.marked_count;
}

}  // namespace

void react_to_ack(Core& core, Connection& c, AckSample& sample, const AckOutcome& outcome,
                  Nanos now) {
  // The order of the steps matters: each one reads what the steps before it have changed.
  RecoveryState& recovery = c.recovery;
  // 0. The segment size, in which the others count.
  if (sample.has_path_probe) on_path_probe_arrived(c);
  // 1. The delivered bytes, which PRR and the growth of the window use below.
  if (!c.has_sack) count_duplicates(c, outcome, sample);
  // 2. A DSACK for a tail loss probe is removed before it can widen the reordering window.
  if (recovery.tail_probe_open && settle_tail_probe(core, c, sample, outcome))
    sample.has_dsack = false;
  if (c.has_sack) adapt_reorder_window(c, sample.has_dsack);
  // 3. Before loss detection, which would start a new episode: after an undo this ACK changes
  //    nothing more. RFC 4015 3: a mark in the episode makes its reduction final. A mark that is
  //    worth a fraction of the window (RFC 8257) does not.
  if (outcome.has_echo && c.is_repairing() && !echoes_every_mark(c)) forget_reduction(core, c);
  if (undo_if_spurious(core, c, sample, outcome.acked_bytes > 0)) return;
  // 4. The old phase ends before losses are looked for, so that a loss found now starts a new one.
  const bool followed_prr = follows_prr(c);
  if (is_phase_over(c)) leave_recovery(c);
  if (c.snd.una.at_or_after(recovery.recover)) recovery.undo_count = 0;
  // 5. Losses are found and react before the echo does: a window is reduced once for both.
  const bool may_hide_loss = c.has_outstanding();
  const uint32_t lost_count = may_hide_loss ? find_losses(core, c, outcome, now) : 0;
  if (!may_hide_loss) c.deadline(Timer::kReorder) = kNever;

  if (lost_count > 0 && !c.is_repairing()) enter_fast_recovery(core, c, outcome);
  if (may_set_ect(c)) react_to_echo(core, c, outcome);
  if (recovery.phase == RecoveryPhase::kOpen) keep_recover_near(c);
  // 6. The window: by PRR in the phase that this ACK leaves behind, or else by its growth.
  if (follows_prr(c)) {
    const bool is_safe = outcome.acked_bytes > 0 && lost_count == 0;
    return reduce_proportionally(c, sample.delivered_bytes, is_safe);
  }
  // PRR ends at ssthresh, and the window grows from the next ACK on. After a timeout this ACK
  // already belongs to slow start (RFC 5681 3.1).
  if (followed_prr) return;
  grow_window(c, sample, outcome, now);
}

void on_reorder_timer(Core& core, Connection& c, Nanos now) {
  c.deadline(Timer::kReorder) = kNever;
  const AckOutcome before{.pipe_before_bytes = c.in_flight_bytes(),
                          .flight_size_before_bytes = c.snd.nxt.since(c.snd.una)};
  const RackScan scan = scan_rack(core, c, now);
  if (scan.wait > nanos(0)) c.deadline(Timer::kReorder) = now + scan.wait;
  if (scan.marked_count == 0) return;
  if (!c.is_repairing()) enter_fast_recovery(core, c, before);
  if (c.recovery.phase == RecoveryPhase::kFastRecovery) reduce_proportionally(c, 0, false);
  arm_after_ack(c, now);
}

void on_timeout(Core& core, Connection& c, Nanos now) {
  RecoveryState& recovery = c.recovery;
  Scoreboard board(core, c);
  ++c.timeouts;
  c.changes.add(Change::kTimeout);
  // The ACK that showed it may have undone a reduction, and looked for no losses.
  if (board.has_discarded_front()) board.forget_sacks(UINT32_MAX);
  // RFC 5681 3.1 (4): the backoff may be left from other data, whose ACK gave no sample (Karn).
  const bool is_first = recovery.backoff == 0 || recovery.phase != RecoveryPhase::kTimeoutRecovery;
  if (is_one_of(c.state, kOpening)) recovery.syn_retransmitted = true;
  suspect_black_hole(c, now);
  if (is_first) remember_before_reduction(core, c);
  if (follows_prr(c)) c.cc.cwnd_bytes = c.cc.ssthresh_bytes;  // which PRR was to reach
  congestion_on_timeout(c.cc, c.snd.nxt.since(c.snd.una), is_first);
  board.mark_all_lost();
  recovery.phase = RecoveryPhase::kTimeoutRecovery;
  recovery.recover = c.snd.nxt;
  recovery.tail_probe_open = false;
  c.ecn.owes_cwr = may_set_ect(c);
  c.snd.tail_probe_pending = false;
  c.snd.dup_acks = 0;
  c.snd.dup_bytes = 0;
  c.snd.must_retransmit = true;
  c.deadline(Timer::kReorder) = kNever;
  c.deadline(Timer::kTailProbe) = kNever;
  if (recovery.backoff < UINT8_MAX) ++recovery.backoff;
  c.deadline(Timer::kTimeout) = now + current_rto(c);
}

}  // namespace lyre::tcp
