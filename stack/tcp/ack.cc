#include "stack/tcp/ack.h"

#include <algorithm>
#include <array>
#include <span>

#include "stack/tcp/closing.h"
#include "stack/tcp/connect.h"
#include "stack/tcp/ecn.h"
#include "stack/tcp/loss.h"
#include "stack/tcp/path_mtu.h"
#include "stack/tcp/timers.h"

namespace lyre::tcp {

namespace {

/// RFC 9293 3.10.7.4 with RFC 5961 5.2: the range of acceptable ACK values.
Verdict check_ack(Core& core, Connection& c, const SegmentIn& segment, Nanos now,
                  Effects& effects) {
  const SendState& snd = c.snd;
  if (!segment.flags.has(wire::TcpFlags::kAck)) {
    effects.drop = Drop::kTcpBadAck;
    return Verdict::kDone;
  }
  if (c.state == State::kSynReceived) {
    if (segment.ack.after(snd.una) && segment.ack.at_or_before(snd.nxt)) return Verdict::kGoOn;
    effects.drop = Drop::kTcpBadAck;
    queue_reset(c, segment.ack, false, effects);
    return Verdict::kDone;
  }
  const bool is_too_old = segment.ack.before(snd.una - snd.wnd_bytes_max);
  if (!is_too_old && segment.ack.at_or_before(snd.nxt)) return Verdict::kGoOn;
  effects.drop = Drop::kTcpBadAck;
  challenge_ack(core, c, now, effects);
  return Verdict::kDone;
}

AckSample make_sample(const Connection& c, const SegmentIn& segment, Nanos now) {
  AckSample sample;
  sample.arrived_at = segment.rx_time.value > 0 ? earlier(segment.rx_time, now) : now;
  sample.has_ts_echo = c.has_timestamps && segment.options.has_timestamps;
  sample.ts_echo = segment.options.ts_echo;
  return sample;
}

/// RFC 5681 2, duplicate acknowledgment, without condition (a), that data is outstanding.
bool is_repeated(const Connection& c, const SegmentIn& segment) {
  if (segment.ack != c.snd.una || segment.payload_bytes != 0) return false;
  if (segment.flags.has(wire::TcpFlags::kFin)) return false;
  return segment.ack + (uint32_t{segment.window} << c.snd.scale) == c.snd.edge;
}

void advance_una(Core& core, Connection& c, SeqNum ack, AckSample& sample, Effects& effects) {
  SendState& snd = c.snd;
  const SeqNum start = c.queue_start();
  const SeqNum end = earliest(ack, snd.queue_end);
  Scoreboard(core, c).ack_up_to(ack, sample);
  snd.una = ack;
  if (end.after(start)) {
    effects.acked_bytes += end.since(start);
    c.bytes_acked += end.since(start);
  }
}

/// RFC 2883 4.1, 4.2: the first block reports a duplicate when it lies below the ACK or inside the
/// second block. A block more than a window below the ACK is ignored: it cannot be a recent
/// duplicate.
bool is_dsack(const Connection& c, const wire::TcpOptions& options, SeqNum ack) {
  const wire::SackBlock& first = options.sacks[0];
  const SeqNum oldest = c.snd.una - c.snd.wnd_bytes_max;
  if (first.end.at_or_before(first.start) || first.end.at_or_before(oldest)) return false;
  if (first.end.at_or_before(ack)) return true;
  if (options.sack_count < 2) return false;
  const wire::SackBlock& second = options.sacks[1];
  return first.start.at_or_after(second.start) && first.end.at_or_before(second.end);
}

/// The blocks of one ACK that can be true, in the order of their sequence numbers. RFC 2018 4 puts
/// the latest block first. RFC 8985 6.2 step 3 compares sequence numbers: in the option's order, a
/// lower block behind a higher one would look like a segment that arrived late.
class SackedRanges {
 public:
  void add(const wire::SackBlock& block) {
    uint8_t at = count_++;
    for (; at > 0 && block.start.before(blocks_[at - 1].start); --at) blocks_[at] = blocks_[at - 1];
    blocks_[at] = block;
  }
  [[nodiscard]] std::span<const wire::SackBlock> all() const { return {blocks_.data(), count_}; }

 private:
  std::array<wire::SackBlock, wire::kSackBlocksMax> blocks_;
  uint8_t count_ = 0;
};

/// RFC 2018 5. An ACK that arrives late may carry blocks that begin below SND.UNA.
SackedRanges sacked_ranges(const Connection& c, std::span<const wire::SackBlock> blocks,
                           bool is_old) {
  SackedRanges out;
  for (wire::SackBlock block : blocks) {
    if (is_old && block.start.at_or_before(c.snd.una)) block.start = c.snd.una;
    const bool is_honest = block.start.before(block.end) &&
                           (block.start.after(c.snd.una) || is_old) &&
                           block.end.at_or_before(c.snd.nxt);
    if (is_honest) out.add(block);
  }
  return out;
}

void read_sacks(Core& core, Connection& c, const SegmentIn& segment, AckSample& sample) {
  const wire::TcpOptions& options = segment.options;
  const uint32_t count = std::min<uint32_t>(options.sack_count, wire::kSackBlocksMax);
  if (count == 0) return;
  sample.has_dsack = is_dsack(c, options, segment.ack);
  if (sample.has_dsack) sample.dsack = options.sacks[0];
  const auto blocks = std::span(options.sacks).first(count).subspan(sample.has_dsack ? 1 : 0);
  const SackedRanges ranges = sacked_ranges(c, blocks, segment.ack.before(c.snd.una));
  Scoreboard board(core, c);
  for (const wire::SackBlock& range : ranges.all()) {
    board.mark_sacked(range.start, range.end, sample);
  }
}

/// RFC 6298 3 (Karn) and RFC 7323 4.1: takes a round-trip sample if the ACK allows one. It may have
/// waited while this host stood still.
void update_rtt(const Core& core, Connection& c, AckSample& sample, Nanos now) {
  if (sample.last_sent_at != kNever && !was_before_pause(core, sample.last_sent_at)) {
    sample.rtt =
        later(earlier(sample.arrived_at - sample.last_sent_at, RttEstimator::kMax), nanos(1));
    c.rtt.note_min(sample.rtt, now);
  }
  Nanos rtt{0};
  if (sample.first_sent_at != kNever && !sample.acked_retransmission) {
    rtt = sample.arrived_at - sample.first_sent_at;
  } else if (sample.acked_retransmission && sample.has_ts_echo) {
    const uint32_t ticks = timestamp_at(c, sample.arrived_at) - sample.ts_echo;
    if (ticks > c.config.user_timeout_ms) return;  // not an echo of a timestamp of ours
    rtt = millis(std::max(ticks, 1u));
  } else {
    return;
  }
  c.recovery.backoff = 0;  // RFC 6298 5.7: a new sample ends the backoff
  if (was_before_pause(core, sample.arrived_at - rtt)) return;
  c.rtt.on_sample(rtt, now, micros(c.config.rto_min_us), millis(c.config.rto_max_ms));
}

/// RFC 9293 3.10.7.4: SND.WL1 and SND.WL2 keep old segments from updating the window.
void take_window(SendState& snd, const SegmentIn& segment) {
  const bool is_news =
      snd.wl1.before(segment.seq) || (snd.wl1 == segment.seq && snd.wl2.at_or_before(segment.ack));
  if (!is_news) return;
  const uint32_t window = uint32_t{segment.window} << snd.scale;
  snd.edge = segment.ack + window;
  snd.wl1 = segment.seq;
  snd.wl2 = segment.ack;
  snd.wnd_bytes_max = std::max(snd.wnd_bytes_max, window);
}

/// The retransmissions are the probes of this window, so the connection stays open as long as they
/// are answered.
void on_window_withdrawn(Connection& c, bool was_withdrawn, Effects& effects) {
  if (!was_withdrawn) c.changes.add(Change::kSendWindowClosed);
  if (!c.reader_gone) c.deadline(Timer::kGiveUp) = kNever;
  if (c.snd.is_window_closed || c.recovery.backoff == 0) return;
  c.snd.is_window_closed = effects.wants_transmit = true;
}

void on_window_open(Connection& c, Effects& effects) {
  c.changes.add(Change::kSendWindowOpen);
  c.snd.is_window_closed = false;
  effects.wants_transmit = true;  // also for the worker, which tells the client
}

/// Whether an answer to what was sent first could have come. A peer that withdraws its window and
/// restores it again and again gets no more than one retransmission in a round trip for that.
bool had_time_to_arrive(const Core& core, const Connection& c, Nanos now) {
  const uint32_t front = c.snd.sent.seq_head;
  return front != kNoNode && now - core.records[front].sent_at >= c.rtt.rtt_min;
}

/// There is room again, or what was sent has found its place, and that was all the room.
void on_window_restored(Core& core, Connection& c, Nanos now, Effects& effects) {
  c.recovery.backoff = 0;  // the probes of a window tell nothing about the path
  if (c.snd.edge.after(c.snd.una)) on_window_open(c, effects);
  if (!c.has_outstanding()) return;
  if (had_time_to_arrive(core, c, now)) resend_front(core, c);
  const Nanos orphan_limit = c.deadline(Timer::kGiveUp);
  arm_after_ack(c, now);
  if (c.reader_gone) c.deadline(Timer::kGiveUp) = orphan_limit;  // a window is no progress
}

/// RFC 9293 3.8.6.2.1: silly window avoidance holds text back for a timeout at most, however far
/// apart the probes of the closed window were. A probe that was due sooner stays so: a peer that
/// opens and closes its window would put it off again and again.
void end_persist_backoff(Connection& c, Nanos now) {
  if (c.recovery.persist_backoff == 0) return;
  const Nanos probe_at = c.deadline(Timer::kPersist);
  c.recovery.persist_backoff = 0;
  begin_persist(c, now);
  c.deadline(Timer::kPersist) = earlier(probe_at, c.deadline(Timer::kPersist));
}

void update_window(Core& core, Connection& c, const SegmentIn& segment, bool was_withdrawn,
                   Nanos now, Effects& effects) {
  SendState& snd = c.snd;
  take_window(snd, segment);
  if (c.is_window_withdrawn()) return on_window_withdrawn(c, was_withdrawn, effects);
  if (was_withdrawn) return on_window_restored(core, c, now, effects);
  if (c.deadline(Timer::kPersist) == kNever) {
    if (snd.is_window_closed && snd.edge.after(snd.nxt)) on_window_open(c, effects);
    return;
  }
  // RFC 9293 3.8.6.1: as long as the peer answers probes, the connection stays open. One that the
  // application closed would stay for ever: nobody is left to end it.
  if (!c.reader_gone) c.deadline(Timer::kGiveUp) = kNever;
  const bool is_open = snd.edge.after(snd.nxt);
  if (is_open) {
    end_persist_backoff(c, now);
    effects.wants_transmit = true;
    c.changes.add(Change::kSendWindowOpen);
  }
  // When it transmits for the connection, the worker sees the change and tells the client.
  if (is_open || snd.is_window_closed || c.recovery.persist_backoff == 0) return;
  snd.is_window_closed = effects.wants_transmit = true;
}

void note_wants_transmit(const Connection& c, Effects& effects) {
  if (c.snd.sent.lost_head != kNoNode || c.unsent_bytes() > 0 || c.wants_fin()) {
    effects.wants_transmit = true;
  }
}

/// RFC 9293 3.10.7.4 ignores an old ACK. Its SACK blocks may still be new, and a duplicate that it
/// reports (RFC 2883) may undo a reduction.
void process_overtaken_ack(Core& core, Connection& c, const SegmentIn& segment, Nanos now,
                           Effects& effects) {
  if (!c.has_sack || segment.options.sack_count == 0) return;
  AckSample sample = make_sample(c, segment, now);
  const AckOutcome outcome{.pipe_before_bytes = c.in_flight_bytes(),
                           .flight_size_before_bytes = c.snd.nxt.since(c.snd.una),
                           .ack = c.snd.una};
  read_sacks(core, c, segment, sample);
  react_to_ack(core, c, sample, outcome, now);
  if (c.has_outstanding()) recheck_tail_probe(c, now);
  note_wants_transmit(c, effects);
}

}  // namespace

Verdict process_ack(Core& core, Connection& c, const SegmentIn& segment, Nanos now,
                    Effects& effects) {
  if (check_ack(core, c, segment, now, effects) == Verdict::kDone) return Verdict::kDone;
  if (c.state == State::kSynReceived) establish(core, c, segment, now, effects);
  if (segment.ack.before(c.snd.una)) {
    process_overtaken_ack(core, c, segment, now, effects);
    return Verdict::kGoOn;
  }

  // Before SND.UNA moves. ACKs that answer probes of such a window are no duplicates.
  const bool was_withdrawn = c.is_window_withdrawn();
  AckSample sample = make_sample(c, segment, now);
  AckOutcome outcome{.acked_bytes = segment.ack.since(c.snd.una),
                     .is_repeated = !was_withdrawn && is_repeated(c, segment),
                     .had_outstanding = c.has_outstanding(),
                     .pipe_before_bytes = c.in_flight_bytes(),
                     .flight_size_before_bytes = c.snd.nxt.since(c.snd.una),
                     .ack = segment.ack,
                     .has_echo = may_set_ect(c) && segment.flags.has(wire::TcpFlags::kEce)};
  c.snd.more_follows = false;  // an ACK ends the wait for more data (SendMark::kMore)
  const bool is_telling =
      c.has_outstanding() || segment.options.sack_count > 0 || c.recovery.tail_probe_open;
  if (outcome.acked_bytes > 0) {
    advance_una(core, c, segment.ack, sample, effects);
    recheck_path_mtu(c, outcome.acked_bytes, now);
  }
  update_window(core, c, segment, was_withdrawn, now, effects);
  if (is_telling) {
    if (c.has_sack) read_sacks(core, c, segment, sample);
    update_rtt(core, c, sample, now);
    react_to_ack(core, c, sample, outcome, now);
    if (outcome.acked_bytes > 0) {
      arm_after_ack(c, now);
    } else {
      recheck_tail_probe(c, now);
    }
  }
  note_wants_transmit(c, effects);
  if (outcome.acked_bytes > 0 && c.is_fin_acked()) on_fin_acked(c, now, effects);
  return c.state == State::kClosed ? Verdict::kDone : Verdict::kGoOn;
}

void process_syn_ack(Core& core, Connection& c, const SegmentIn& segment, Nanos now) {
  AckSample sample = make_sample(c, segment, now);
  Scoreboard(core, c).ack_up_to(segment.ack, sample);
  c.snd.una = segment.ack;
  update_rtt(core, c, sample, now);
  c.recovery.phase = RecoveryPhase::kOpen;
  c.recovery.backoff = 0;
  c.recovery.rack_valid = false;  // a SYN's round trip is no evidence about reordering of data
  c.snd.must_retransmit = false;
  const bool is_scaled = !segment.flags.has(wire::TcpFlags::kSyn);
  const uint32_t window = uint32_t{segment.window} << (is_scaled ? c.snd.scale : 0);
  c.snd.edge = segment.ack + window;
  c.snd.wl1 = segment.seq;
  c.snd.wl2 = segment.ack;
  c.snd.wnd_bytes_max = std::max(c.snd.wnd_bytes_max, window);
  c.deadline(Timer::kTimeout) = c.deadline(Timer::kTailProbe) = kNever;
}

}  // namespace lyre::tcp
