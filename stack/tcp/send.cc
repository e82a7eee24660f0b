#include "stack/tcp/send.h"

#include <algorithm>

#include "stack/tcp/closing.h"
#include "stack/tcp/connect.h"
#include "stack/tcp/ecn.h"
#include "stack/tcp/pacing.h"
#include "stack/tcp/path_mtu.h"
#include "stack/tcp/receive_window.h"
#include "stack/tcp/sack_blocks.h"
#include "stack/tcp/scoreboard.h"
#include "stack/tcp/state_table.h"
#include "stack/tcp/timers.h"
#include "stack/tcp/undo.h"

namespace lyre::tcp {

namespace {

using wire::TcpFlags;

constexpr uint32_t kSackOptionBytes = 4;  ///< with two NOPs before it; each block adds 8
constexpr uint32_t kSackBlockBytes = 8;
constexpr uint32_t kSacksWithTimestamps = 3;  ///< RFC 2018 3: 40 bytes of options
constexpr uint32_t kPayloadBytesMin = 16;     ///< the minimum beside any options

/// A range of sequence space to send.
struct SeqRange {
  SeqNum seq;
  uint32_t data_bytes = 0;
  bool has_fin = false;
  uint32_t sequence_bytes() const { return data_bytes + (has_fin ? 1 : 0); }
};

uint32_t sack_count_max(const Connection& c) {
  return c.has_timestamps ? kSacksWithTimestamps : wire::kSackBlocksMax;
}

uint32_t option_bytes(const Connection& c) {
  uint32_t bytes = c.has_timestamps ? kTimestampOptionBytes : 0;
  const uint32_t blocks =
      std::min<uint32_t>(c.rcv.sack_count + (c.rcv.has_dsack ? 1u : 0u), sack_count_max(c));
  if (blocks > 0) bytes += kSackOptionBytes + kSackBlockBytes * blocks;
  return bytes;
}

/// RFC 9293 3.7.1: Eff.snd.MSS, the MSS minus the options of this segment.
uint16_t payload_bytes_of_one(const Connection& c) {
  const uint32_t options = option_bytes(c);
  const uint32_t mss = c.snd.mss_bytes;
  return static_cast<uint16_t>(mss > options + kPayloadBytesMin ? mss - options : kPayloadBytesMin);
}

/// The largest multiple of one segment that the caller takes at once.
uint32_t payload_limit(uint32_t payload_bytes_max, uint32_t one) {
  return payload_bytes_max < 2 * one ? one : payload_bytes_max - payload_bytes_max % one;
}

/// Sets what every segment but a RST carries: acknowledgment, window, options. Counts as an ACK.
void stamp(Connection& c, bool is_new_text, SegmentOut& out, Nanos now) {
  ReceiveState& rcv = c.rcv;
  out.flags.set(TcpFlags::kAck);
  out.ack = rcv.nxt;
  out.window = advertise_window(c, false);
  put_timestamps(c, now, out.options);
  if (rcv.sack_count > 0 || rcv.has_dsack) write_sack_option(c, sack_count_max(c), out.options);
  mark_departure(c, is_new_text, out);
  rcv.acked = rcv.nxt;
  rcv.unacked_bytes = 0;
  rcv.ack_now = false;
  if (rcv.dup_acks_owed > 0) --rcv.dup_acks_owed;
  c.deadline(Timer::kAck) = kNever;
  ++c.segments_sent;
}

SegmentOut make_syn(Connection& c, Nanos now) {
  SegmentOut out;
  out.seq = c.snd.iss;
  out.flags.set(TcpFlags::kSyn);
  out.options = syn_options(c, now);
  out.mss_bytes = c.snd.mss_bytes;
  if (c.state == State::kSynReceived) {
    out.flags.set(TcpFlags::kAck);
    out.ack = c.rcv.nxt;
    c.rcv.acked = c.rcv.nxt;
    c.rcv.ack_now = false;
  }
  offer_ecn(c, out);
  // The offer follows from the buffer; the edge is set when the peer's SYN is known.
  const uint32_t offer = window_on_offer(c);
  out.window = static_cast<uint16_t>(std::min<uint32_t>(offer, UINT16_MAX));
  ++c.segments_sent;
  return out;
}

SegmentOut make_data(Connection& c, const SeqRange& range, uint16_t one, bool is_new, Nanos now) {
  SegmentOut out;
  out.seq = range.seq;
  out.queue_offset = range.seq.since(c.queue_start());
  out.payload_bytes = range.data_bytes;
  out.mss_bytes = one;
  if (range.has_fin) out.flags.set(TcpFlags::kFin);
  const bool is_queue_end = range.data_bytes > 0 && range.seq + range.data_bytes == c.snd.queue_end;
  // RFC 9293 3.9.1.2: PSH on the last queued segment, unless the application said that more
  // follows.
  if (is_queue_end && !c.snd.ends_unpushed) out.flags.set(TcpFlags::kPsh);
  stamp(c, is_new && range.data_bytes > 0, out, now);
  // stamp() counts one of those that it is cut into.
  if (range.data_bytes > one) c.segments_sent += (range.data_bytes - 1) / one;
  return out;
}

SegmentOut make_bare(Connection& c, SeqNum seq, Nanos now) {
  SegmentOut out;
  out.seq = seq;
  out.mss_bytes = c.snd.mss_bytes;
  stamp(c, false, out, now);
  return out;
}

/// RFC 8257 3.2: the ACK for a range of text, when the text after it has another mark.
SegmentOut make_run_ack(Connection& c, Nanos now) {
  EcnState& ecn = c.ecn;
  const bool is_marked = ecn.last_was_marked != (ecn.run_ack_count % 2 != 0);
  SegmentOut out;
  out.seq = c.snd.nxt;
  out.ack = ecn.run_acks[0];
  out.mss_bytes = c.snd.mss_bytes;
  if (may_set_ect(c)) out.ecn = wire::Ecn::kEct0;
  out.flags.set(TcpFlags::kAck);
  if (is_marked) out.flags.set(TcpFlags::kEce);
  out.window = window_from(c, out.ack);
  put_timestamps(c, now, out.options);
  std::copy(ecn.run_acks.begin() + 1, ecn.run_acks.begin() + ecn.run_ack_count,
            ecn.run_acks.begin());
  --ecn.run_ack_count;
  c.rcv.acked = out.ack;
  ++c.segments_sent;
  return out;
}

/// RFC 7661 4.3: the window grows only if it limited the sender.
void note_cwnd_limited(Connection& c) {
  c.snd.is_cwnd_limited = true;
  c.snd.cwnd_limited_end = c.snd.nxt;
}

void count_recovery_send(Connection& c, uint32_t bytes) {
  if (c.recovery.phase != RecoveryPhase::kOpen) c.recovery.prr_out_bytes += bytes;
}

/// RFC 2861 3: a window that was not used for a whole RTO is no longer validated.
void judge_unused_window(Connection& c, Nanos now) {
  SendState& snd = c.snd;
  // The same rule as for growth: in slow start a half-full window counts as used.
  const bool is_half_full =
      c.cc.is_slow_start() && uint64_t{2} * c.in_flight_bytes() > c.cc.cwnd_bytes;
  if (snd.is_cwnd_limited || is_half_full || c.recovery.phase != RecoveryPhase::kOpen) {
    snd.cwnd_used_bytes = 0;
    snd.cwnd_judged_at = now;
    return;
  }
  snd.cwnd_used_bytes = std::max(snd.cwnd_used_bytes, c.in_flight_bytes());
  if (now - snd.cwnd_judged_at < c.rtt.rto) return;
  const bool is_application_limited = c.unsent_bytes() == 0;
  if (is_application_limited) congestion_on_unused(c.cc, snd.cwnd_used_bytes);
  snd.cwnd_used_bytes = 0;
  snd.cwnd_judged_at = now;
}

/// The front of a record, at most `limit` bytes of data, with its FIN if the range reaches it.
SeqRange front_of(const Connection& c, const SentRecord& record, uint32_t limit) {
  const bool ends_in_fin = record.end.after(c.snd.queue_end);
  const uint32_t data = record.bytes() - (ends_in_fin ? 1 : 0);
  SeqRange range{.seq = record.start, .data_bytes = std::min(data, limit)};
  range.has_fin = ends_in_fin && range.data_bytes == data;
  return range;
}

SegmentOut resend(Core& core, Connection& c, uint32_t index, const SeqRange& range, uint16_t one,
                  Nanos now) {
  const SentRecord& record = core.records[index];
  const bool is_pushed = record.ends_pushed && range.sequence_bytes() == record.bytes();
  Scoreboard(core, c).mark_resent(index, range.sequence_bytes(), one, now);
  SegmentOut out = make_data(c, range, one, false, now);
  if (is_pushed) out.flags.set(TcpFlags::kPsh);
  out.is_retransmission = true;
  c.bytes_retransmitted += range.data_bytes;
  c.changes.add(Change::kRetransmitted);
  c.snd.last_sent_at = now;
  count_recovery_send(c, range.sequence_bytes());
  note_resent(core, c, range.sequence_bytes(), now);
  note_paced(c, range.data_bytes, now);
  arm_after_send(c, now);
  return out;
}

std::optional<SegmentOut> try_resend_syn(Core& core, Connection& c, uint32_t index, Nanos now) {
  Scoreboard(core, c).mark_resent(index, 1, 1, now);
  c.changes.add(Change::kRetransmitted);
  c.snd.must_retransmit = false;
  SegmentOut out = make_syn(c, now);
  out.is_retransmission = true;
  arm_after_send(c, now);
  return out;
}

/// RFC 6675 4, NextSeg rule 1: lost data is sent before new data.
std::optional<SegmentOut> try_resend_lost(Core& core, Connection& c, uint32_t payload_bytes_max,
                                          Nanos now) {
  const uint32_t index = c.snd.sent.lost_head;
  if (index == kNoNode) return std::nullopt;
  const SentRecord& record = core.records[index];
  if (!c.is_syn_acked() && record.start == c.snd.iss) return try_resend_syn(core, c, index, now);

  const uint16_t one = payload_bytes_of_one(c);
  uint32_t limit = payload_limit(payload_bytes_max, one);
  const uint32_t flight = c.in_flight_bytes();
  const uint32_t room = c.cc.cwnd_bytes > flight ? c.cc.cwnd_bytes - flight : 0;
  const bool is_forced = c.snd.must_retransmit || flight == 0;
  if (!is_forced && room < std::min<uint32_t>(record.bytes(), one)) {
    note_cwnd_limited(c);
    return std::nullopt;
  }
  limit = std::min(limit, std::max<uint32_t>(room - room % one, one));
  c.snd.must_retransmit = false;
  return resend(core, c, index, front_of(c, record, limit), one, now);
}

/// The amount of new data to send, and whether the FIN is included.
struct NewData {
  uint32_t bytes = 0;
  bool has_fin = false;
  bool is_window_blocked = false;
  bool is_held = false;  ///< by Nagle or cork
};

/// RFC 9293 3.7.4 (Nagle) and cork: whether the last segment, which is not full, has to wait.
bool holds_last_piece(const Connection& c) {
  if (c.snd.fin_queued || c.snd.push_held) return false;
  if (c.config.cork || c.snd.more_follows) return true;
  return c.config.nagle && c.has_outstanding();
}

/// RFC 9293 3.8.6.2.1 (silly window avoidance): whether a segment that is not full and not the last
/// may be sent.
bool may_cut_small(const Connection& c, uint32_t bytes) { return bytes >= c.snd.wnd_bytes_max / 2; }

/// Payload of the path probe (path_mtu.h), which is next. Zero: none is due, or as much is not
/// unsent, or the peer's window never takes it.
uint16_t path_probe_bytes(const Scoreboard& board, const Connection& c, Nanos now) {
  if (!is_path_probe_due(c, now) || !board.can_take()) return 0;
  const SendState& snd = c.snd;
  const uint32_t bytes = uint32_t{payload_bytes_of_one(c)} + path_probe_mss(c) - snd.mss_bytes;
  const uint32_t window = snd.edge.after(snd.una) ? snd.edge.since(snd.una) : 0;
  return window >= bytes && c.unsent_bytes() >= bytes ? static_cast<uint16_t>(bytes) : uint16_t{0};
}

/// `forced`: a persist or tail loss probe, which ignores cwnd and silly window avoidance.
NewData plan_new_data(Connection& c, uint32_t limit, uint32_t one, bool forced) {
  NewData plan;
  SendState& snd = c.snd;
  const uint32_t unsent = c.unsent_bytes();
  const uint32_t window = snd.edge.after(snd.nxt) ? snd.edge.since(snd.nxt) : 0;
  uint32_t bytes = std::min({unsent, limit, window});
  const bool is_cut_by_window = bytes < std::min(unsent, limit);
  const uint32_t flight = c.in_flight_bytes();
  // RFC 5681 3.1: the window is at least one segment, even after the segment size has grown.
  const uint32_t cwnd = forced ? kCwndBytesMax : std::max(c.cc.cwnd_bytes, one);
  // One large send takes at most half the window: the ACK clock needs several sends per window.
  const uint32_t send_max = std::max(cwnd / 2 - cwnd / 2 % one, one);
  bytes = std::min(bytes, send_max);
  const uint32_t room = cwnd > flight ? cwnd - flight : 0;
  if (bytes > room) {
    bytes = room - room % one;
    note_cwnd_limited(c);
    if (bytes == 0) return plan;
  }
  if (bytes > one && bytes < unsent) bytes -= bytes % one;
  if (bytes > 0 && bytes < one && !forced) {
    plan.is_held = bytes == unsent && holds_last_piece(c);
    const bool is_cut_short = bytes < unsent && !may_cut_small(c, bytes);
    plan.is_window_blocked = is_cut_by_window && is_cut_short;
    if (plan.is_held || is_cut_short) return plan;
  }
  plan.bytes = bytes;
  plan.has_fin = snd.fin_queued && bytes == unsent && window > bytes;
  plan.is_window_blocked = bytes == 0 && !plan.has_fin && (is_cut_by_window || window == 0);
  return plan;
}

/// RFC 5681 4.1: after an idle RTO the old window is no longer validated. RFC 2861 3: for each RTO
/// once, also while the peer's window lets nothing out.
void restart_after_idle(Core& core, Connection& c, Nanos now) {
  if (c.has_outstanding() || c.snd.last_sent_at.value == 0) return;
  const Nanos idle = now - later(c.snd.last_sent_at, c.snd.cwnd_judged_at);
  if (idle <= c.rtt.rto) return;
  c.snd.cwnd_judged_at = now;
  c.snd.cwnd_used_bytes = 0;
  congestion_on_idle(c.cc, idle, c.rtt.rto);
  forget_reduction(core, c);
  // Otherwise the end of the reduction would restore a window that was not validated.
  if (c.recovery.phase == RecoveryPhase::kEcnReduction) c.recovery.phase = RecoveryPhase::kOpen;
}

SegmentOut send_new(Core& core, Connection& c, const NewData& plan, uint16_t one, Nanos now) {
  const SeqRange range{.seq = c.snd.nxt, .data_bytes = plan.bytes, .has_fin = plan.has_fin};
  Scoreboard(core, c).append(range.sequence_bytes(), one, now);
  c.snd.nxt += range.sequence_bytes();
  c.bytes_sent += plan.bytes;
  c.snd.last_sent_at = now;
  c.snd.probe_pending = false;
  count_recovery_send(c, range.sequence_bytes());
  judge_unused_window(c, now);
  note_paced(c, plan.bytes, now);
  arm_after_send(c, now);
  SegmentOut out = make_data(c, range, one, true, now);
  core.records[c.snd.sent.seq_tail].ends_pushed = out.flags.has(TcpFlags::kPsh);
  // A large send that the port segments ends in PSH, so that a receiver that merges it again
  // delivers it at once.
  if (plan.bytes > one) out.flags.set(TcpFlags::kPsh);
  return out;
}

std::optional<SegmentOut> try_send_new(Core& core, Connection& c, uint32_t payload_bytes_max,
                                       bool forced, Nanos now) {
  if (!is_one_of(c.state, kMaySendText)) return std::nullopt;
  if (c.unsent_bytes() == 0 && !c.wants_fin()) return std::nullopt;
  const Scoreboard board(core, c);
  if (!board.has_room()) return std::nullopt;
  restart_after_idle(core, c, now);
  const uint16_t probe = forced ? uint16_t{0} : path_probe_bytes(board, c, now);
  const uint16_t one = probe > 0 ? probe : payload_bytes_of_one(c);
  const bool is_single = forced || probe > 0;
  const uint32_t limit = is_single ? one : payload_limit(payload_bytes_max, one);
  const NewData plan = plan_new_data(c, limit, one, forced);
  // What is in flight makes room for it. Smaller segments would take that room.
  if (probe > 0 && plan.bytes < probe) return std::nullopt;
  if (probe > 0) note_path_probe(c, now);
  if (plan.bytes > 0 || plan.has_fin) return send_new(core, c, plan, one, now);
  // The persist timer limits how long Nagle, cork and silly window avoidance hold data back.
  const bool needs_persist = (plan.is_window_blocked || plan.is_held) && !c.has_outstanding() &&
                             c.deadline(Timer::kPersist) == kNever;
  if (!needs_persist) return std::nullopt;
  begin_persist(c, now);
  if (plan.is_window_blocked) c.changes.add(Change::kSendWindowClosed);
  return std::nullopt;
}

std::optional<SegmentOut> try_send_syn(Core& core, Connection& c, Nanos now) {
  if (!is_one_of(c.state, kOpening) || c.snd.nxt != c.snd.iss) return std::nullopt;
  Scoreboard(core, c).append(1, 1, now);
  c.snd.nxt += 1;
  arm_after_send(c, now);
  return make_syn(c, now);
}

/// RFC 8985 7.3: new data if there is any, else the last segment again.
std::optional<SegmentOut> try_send_tail_probe(Core& core, Connection& c, Nanos now) {
  c.snd.tail_probe_pending = false;
  if (!c.has_outstanding() || c.is_repairing()) return std::nullopt;
  c.recovery.tail_probe_open = true;
  c.recovery.tail_probe_is_retransmit = false;
  std::optional<SegmentOut> out = try_send_new(core, c, 0, true, now);
  if (!out) {
    Scoreboard board(core, c);
    const uint16_t one = payload_bytes_of_one(c);
    const bool ends_in_fin = c.snd.nxt.after(c.snd.queue_end);
    const uint32_t tail = board.split_tail(one + (ends_in_fin ? 1u : 0u));
    if (board[tail].place != SentRecord::Place::kInFlight) {  // it arrived after the timer ran out
      c.recovery.tail_probe_open = false;
      return std::nullopt;
    }
    c.recovery.tail_probe_is_retransmit = true;
    out = resend(core, c, tail, front_of(c, board[tail], one), one, now);
  }
  c.recovery.tail_probe_end = c.snd.nxt;
  return out;
}

/// RFC 9293 3.8.6.1 and 3.8.4: a window probe or keep-alive. Like Linux, an empty segment below the
/// window: the peer must answer it, and it adds nothing to the scoreboard.
std::optional<SegmentOut> try_send_probe(Core& core, Connection& c, Nanos now) {
  c.snd.probe_pending = false;
  c.snd.ends_unpushed = false;
  if (auto out = try_send_new(core, c, 0, true, now)) return out;
  if (is_one_of(c.state, kOpening) || c.has_outstanding()) return std::nullopt;
  return make_bare(c, c.snd.una - 1, now);
}

/// Sends what pacing may delay (pacing.h).
std::optional<SegmentOut> try_send_text(Core& core, Connection& c, uint32_t payload_bytes_max,
                                        Nanos now) {
  if (auto out = try_resend_lost(core, c, payload_bytes_max, now)) return out;
  if (c.snd.tail_probe_pending) {
    if (auto out = try_send_tail_probe(core, c, now)) return out;
  }
  if (c.snd.probe_pending) {
    if (auto out = try_send_probe(core, c, now)) return out;
  }
  return try_send_new(core, c, payload_bytes_max, false, now);
}

bool is_ack_due(const Connection& c) {
  // In SYN-RECEIVED it is a challenge ACK (RFC 5961 3.2); the SYN,ACK itself was sent before.
  if (c.state == State::kSynSent) return false;
  return c.rcv.ack_now || c.rcv.dup_acks_owed > 0;
}

}  // namespace

std::optional<SegmentOut> next_segment(Core& core, Connection& c, uint32_t payload_bytes_max,
                                       Nanos now) {
  if (c.reset_pending) return take_reset(c, now);
  if (c.state == State::kClosed) return std::nullopt;
  if (auto out = try_send_syn(core, c, now)) return out;
  if (c.ecn.run_ack_count > 0) return make_run_ack(c, now);
  if (!is_paced_out(c, now)) {
    const uint32_t limit = std::min(payload_bytes_max, paced_room(c, now));
    if (auto out = try_send_text(core, c, limit, now)) return out;
  }
  c.snd.push_held = false;
  if (is_ack_due(c)) return make_bare(c, c.snd.nxt, now);
  return std::nullopt;
}

uint32_t full_payload_bytes(const Connection& c) { return payload_bytes_of_one(c); }

}  // namespace lyre::tcp
