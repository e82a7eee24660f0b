#include "stack/tcp/receive.h"

#include <algorithm>

#include "stack/tcp/closing.h"
#include "stack/tcp/ecn.h"
#include "stack/tcp/receive_window.h"
#include "stack/tcp/sack_blocks.h"
#include "stack/tcp/state_table.h"
#include "stack/tcp/timers.h"

namespace lyre::tcp {

namespace {

/// RFC 9293 3.7.1: the size of a full-sized segment until the peer's segments are known.
constexpr uint32_t kFullSegmentBytesMin = 536;

/// The new part of a segment's payload, up to the end of the first gap that it fills.
struct NewText {
  SeqNum start;
  SeqNum end;
  uint32_t after = kNoNode;   ///< the run before the new text
  uint32_t before = kNoNode;  ///< the run after it; those between are contained in it
  bool is_empty() const { return !start.before(end); }
};

/// The run after which bytes at `start` are inserted: the last one that begins at or before it. A
/// peer chooses where its segments lie, and leaves thousands of gaps when many are lost at once, so
/// every place behind the first gap is found in O(log n) steps (CVE-2018-5390).
uint32_t find_predecessor(Core& core, Connection& c, SeqNum start) {
  const ReceiveState& rcv = c.rcv;
  if (rcv.gap_head == kNoNode) return rcv.run_tail;
  if (!core.runs[rcv.run_tail].start.after(start)) return rcv.run_tail;  // new text: most are
  const uint32_t successor = run_index(core, c).find_first(
      [start](const ReceivedRun& run) { return run.start.after(start); });
  return core.runs[successor].prev;
}

/// A segment is compared with so many runs that hold its first bytes, and replaces at most so many.
/// A peer that sent each byte by itself would otherwise make every later segment cost a walk over
/// as many runs as it has bytes.
constexpr int kComparedRuns = 64;

/// Moves the start of `text` behind the runs from `next` on that hold its first bytes. Returns the
/// run after those. Empty: they are too many.
std::optional<uint32_t> skip_held_front(const Core& core, uint32_t next, NewText& text) {
  for (int compared = 0;; ++compared) {
    if (next == kNoNode || text.is_empty()) return next;
    const ReceivedRun& run = core.runs[next];
    if (run.start.after(text.start)) return next;
    if (compared == kComparedRuns) return std::nullopt;
    text.start = latest(text.start, run.end());
    text.after = next;
    next = run.next;
  }
}

/// The first run that `text` does not replace: it is not inside the text, or there are too many
/// before it.
uint32_t find_end_of_replaced(const Core& core, uint32_t next, const NewText& text) {
  for (int i = 0; i < kComparedRuns; ++i) {
    if (next == kNoNode || core.runs[next].end().after(text.end)) break;
    next = core.runs[next].next;
  }
  return next;
}

/// Bytes that were stored first are kept. Exception: runs that lie completely inside the segment
/// are replaced, so that one segment that fills several gaps is stored, and acknowledged, as one.
/// Empty: it would be compared with too many of them, see skip_held_front().
std::optional<NewText> trim_to_gap(Core& core, Connection& c, SeqNum start, SeqNum end) {
  NewText text{.start = start, .end = end, .after = find_predecessor(core, c, start)};
  const uint32_t next = text.after == kNoNode ? c.rcv.run_head : core.runs[text.after].next;
  if (text.after != kNoNode) text.start = latest(text.start, core.runs[text.after].end());
  const std::optional<uint32_t> behind = skip_held_front(core, next, text);
  if (!behind) return std::nullopt;
  if (text.is_empty()) return text;
  text.before = find_end_of_replaced(core, *behind, text);
  if (text.before != kNoNode) text.end = earliest(text.end, core.runs[text.before].start);
  return text;
}

void link_run(Core& core, Connection& c, uint32_t index, uint32_t after) {
  ReceivedRun& run = core.runs[index];
  uint32_t& forward = after == kNoNode ? c.rcv.run_head : core.runs[after].next;
  run.prev = after;
  run.next = forward;
  forward = index;
  (run.next == kNoNode ? c.rcv.run_tail : core.runs[run.next].prev) = index;
}

/// Removes the runs between `text.after` and `text.before`: `text` contains their bytes.
void supersede(Core& core, Connection& c, const NewText& text, Effects& effects) {
  ReceiveState& rcv = c.rcv;
  uint32_t index = text.after == kNoNode ? rcv.run_head : core.runs[text.after].next;
  while (index != text.before) {
    ReceivedRun& run = core.runs[index];
    const uint32_t next = run.next;
    run_index(core, c).erase(index);  // it begins after `text.start`, so it was behind the gap
    note_duplicate(c, run.start, run.end());
    rcv.charged_bytes -= std::min(rcv.charged_bytes, run.charge_bytes);
    if (rcv.gap_head == index) rcv.gap_head = text.before;
    run.next = rcv.superseded_head;
    rcv.superseded_head = index;
    effects.has_superseded = true;
    index = next;
  }
  (text.after == kNoNode ? rcv.run_head : core.runs[text.after].next) = text.before;
  (text.before == kNoNode ? rcv.run_tail : core.runs[text.before].prev) = text.after;
}

/// The drop reason when there is no room for one more payload.
std::optional<Drop> refuse(const Core& core, const Connection& c, const SegmentIn& segment,
                           bool is_in_order) {
  if (!segment.has_room) return Drop::kRxPoolLow;
  // The last records are reserved for text in order, which the application can take at once.
  const uint32_t reserve = is_in_order ? 0 : core.config.connections_max;
  if (core.runs.room() <= reserve) return Drop::kTcpReassemblyFull;
  if (is_in_order && c.rcv.charged_bytes == 0) return std::nullopt;  // see may_overrun()
  // The window may promise more than small packets leave room for. Text out of order may fill the
  // buffer, text in order twice the buffer: what is refused is retransmitted, and text after a gap
  // can never keep out the text that closes the gap.
  const uint64_t limit = uint64_t{is_in_order ? 2u : 1u} * c.config.receive_buffer_bytes;
  const bool is_too_much = uint64_t{c.rcv.charged_bytes} + segment.charge_bytes > limit;
  return is_too_much ? std::optional(Drop::kRxBudget) : std::nullopt;
}

/// The run `index` is behind the first gap.
void add_behind_gap(Core& core, Connection& c, uint32_t index) {
  const ReceivedRun& run = core.runs[index];
  const bool is_first = run.prev == kNoNode || !core.runs[run.prev].start.after(c.rcv.nxt);
  run_index(core, c).insert_after(is_first ? kNoNode : run.prev, index);
  if (is_first) c.rcv.gap_head = index;
}

void keep(Core& core, Connection& c, const SegmentIn& segment, const NewText& text,
          Effects& effects) {
  supersede(core, c, text, effects);
  const uint32_t index = core.runs.take();
  ReceivedRun& run = core.runs[index];
  run.start = text.start;
  run.length = text.end.since(text.start);
  run.offset = text.start.since(segment.seq);
  run.charge_bytes = segment.charge_bytes;
  run.handle = segment.payload;
  link_run(core, c, index, text.after);
  c.rcv.charged_bytes += segment.charge_bytes;
  note_payload_ratio(c, run.length, segment.charge_bytes);
  effects.payload_kept = true;
  effects.kept_run = index;
  if (text.start != c.rcv.nxt) return add_behind_gap(core, c, index);
  if (c.rcv.was_refused) ack_at_once(c, effects);  // it waits for room
  c.rcv.was_refused = false;
  SeqNum nxt = text.end;
  uint32_t gap = run.next;
  while (gap != kNoNode && core.runs[gap].start == nxt) {
    run_index(core, c).erase(gap);
    nxt = core.runs[gap].end();
    gap = core.runs[gap].next;
  }
  c.rcv.gap_head = gap;
  const uint32_t advanced = nxt.since(c.rcv.nxt);
  c.rcv.nxt = nxt;
  c.bytes_received += advanced;
  c.rcv.unacked_bytes += advanced;
  effects.has_readable = true;
}

/// A short segment without PSH: the rest of a larger one follows.
bool is_cut_off(const Connection& c, const SegmentIn& segment) {
  const uint32_t full = std::min<uint32_t>(c.config.mss_bytes, kFullSegmentBytesMin);
  return segment.payload_bytes < full && !segment.flags.has(wire::TcpFlags::kPsh);
}

/// What a full segment of the peer may have, as far as this one tells: merged ones count one by
/// one, the short one at their end too.
uint16_t bytes_of_one(const Connection& c, const SegmentIn& segment) {
  const uint32_t options_bytes = c.has_timestamps ? kTimestampOptionBytes : 0;
  const uint32_t full = c.config.mss_bytes - options_bytes;
  return static_cast<uint16_t>(std::min(segment.payload_bytes / segment.segment_count, full));
}

constexpr uint16_t kSizeBits = 0x3ff;  ///< of ReceiveState::smaller_size

/// The peer's full segments become smaller when the path does. As in Linux, two of the same size
/// show it. The end of a message (PSH) shows nothing, unless it is merged with two or more: the
/// short one of two would halve the mean, and each such message would be acknowledged at once.
void measure_segment(Connection& c, const SegmentIn& segment) {
  ReceiveState& rcv = c.rcv;
  const uint16_t bytes = bytes_of_one(c, segment);
  if (bytes >= rcv.segment_bytes_max) {
    rcv.segment_bytes_max = bytes;
    rcv.smaller_size = 0;
    return;
  }
  const bool is_end = segment.segment_count <= 2 && segment.flags.has(wire::TcpFlags::kPsh);
  if (is_end || bytes < kFullSegmentBytesMin || segment.seq != rcv.nxt) return;
  if (rcv.smaller_size == (bytes & kSizeBits)) rcv.segment_bytes_max = bytes;
  rcv.smaller_size = bytes & kSizeBits;
}

/// RFC 9293 3.8.6.3 and RFC 5681 4.2: when to send the ACK for text in order.
void schedule_ack(Connection& c, const SegmentIn& segment, bool filled_gap, Nanos now,
                  Effects& effects) {
  ReceiveState& rcv = c.rcv;
  const bool is_second = rcv.unacked_bytes > segment.payload_bytes;
  const bool is_quick = rcv.quick_acks > 0 && (is_second || !is_cut_off(c, segment));
  if (is_quick) --rcv.quick_acks;
  const bool is_overrun = (segment.seq + segment.payload_bytes).after(rcv.edge);
  // Text in the last segment of the handshake: its sender has already waited for two round trips.
  const bool is_first_word = effects.became_established;
  const bool has_early_fin = rcv.has_fin && rcv.nxt.before(rcv.fin_seq);
  const bool is_due = filled_gap || rcv.gap_head != kNoNode || has_early_fin || is_quick ||
                      is_first_word || c.config.quick_ack ||
                      rcv.unacked_bytes >= 2u * rcv.segment_bytes_max;
  if (is_overrun) rcv.edge = segment.seq + segment.payload_bytes;
  if (is_due && !is_overrun) {
    ack_at_once(c, effects);
  } else if (c.deadline(Timer::kAck) == kNever) {
    c.deadline(Timer::kAck) = now + millis(c.config.ack_delay_ms);
  }
}

void ack_out_of_order(Connection& c, const NewText& text, Effects& effects) {
  count_up(c.out_of_order_segments);
  if (c.has_sack) {
    add_sack_block(c, {.start = text.start, .end = text.end});
  } else if (c.rcv.dup_acks_owed < UINT8_MAX) {
    ++c.rcv.dup_acks_owed;  // RFC 5681 3.2: for a peer without SACK, which counts duplicates
  }
  ack_at_once(c, effects);
}

/// RFC 1122 4.2.2.13: the application has closed, so the sender of more data must get a RST. The
/// FIN goes first: by it the peer knows that the connection was closed, and did not break. A RST
/// that overtakes a lost FIN says nothing of this, so it waits until the FIN is acknowledged
/// (on_fin_acked()), but not for long.
void refuse_after_close(Connection& c, const SegmentIn& segment, Nanos now, Effects& effects) {
  effects.drop = Drop::kTcpAfterClose;
  c.rcv.was_refused = true;
  if (!c.is_fin_acked()) return limit_late_text(c, now);
  // RFC 9293 3.10.7.1, as if the connection did not exist. With this sequence number the peer
  // accepts the RST (RFC 5961 3.2) even if it has not received all data that we sent.
  queue_reset(c, segment.ack, false, effects);
  finish(c, EndReason::kAborted, effects);
}

void store_text(Core& core, Connection& c, const SegmentIn& segment, SeqNum start, SeqNum end,
                Nanos now, Effects& effects) {
  const std::optional<NewText> place = trim_to_gap(core, c, start, end);
  if (!place) {
    effects.drop = Drop::kTcpReassemblyFull;
    return ack_at_once(c, effects);
  }
  const NewText& text = *place;
  if (text.is_empty()) {
    count_up(c.duplicate_segments);
    note_duplicate(c, start, end);
    // RFC 2018 4: the block that contains the segment that just arrived comes first.
    if (c.has_sack && start.after(c.rcv.nxt)) add_sack_block(c, {.start = start, .end = end});
    effects.drop = Drop::kTcpDuplicate;
    return ack_at_once(c, effects);
  }
  const bool is_in_order = text.start == c.rcv.nxt;
  if (const auto refusal = refuse(core, c, segment, is_in_order)) {
    effects.drop = refusal;
    c.rcv.was_refused |= is_in_order;
    return ack_at_once(c, effects);
  }
  const bool had_gap = c.rcv.gap_head != kNoNode;
  if (start.before(text.start)) note_duplicate(c, start, text.start);
  keep(core, c, segment, text, effects);
  if (text.end.before(end)) {
    note_duplicate(c, text.end, earliest(end, core.runs[text.before].end()));
  }
  if (!is_in_order) return ack_out_of_order(c, text, effects);
  note_receive_round(core, c, segment, now);
  if (had_gap) drop_sack_blocks_below(c, c.rcv.nxt);
  schedule_ack(c, segment, had_gap, now, effects);
}

/// A segment that begins in the window and ends beyond it is kept whole while the buffer is empty:
/// the buffer is charged by packet, and trimming would only make the peer retransmit the rest.
bool may_overrun(const Connection& c, const SegmentIn& segment) {
  return c.rcv.charged_bytes == 0 && segment.seq.at_or_before(c.rcv.nxt) &&
         c.rcv.nxt.before(c.rcv.edge);
}

}  // namespace

void note_duplicate(Connection& c, SeqNum start, SeqNum end) {
  if (!c.has_sack || start == end) return;
  wire::SackBlock& dsack = c.rcv.dsack;
  if (!c.rcv.has_dsack) {
    c.rcv.has_dsack = true;
    dsack = {.start = start, .end = end};
  } else if (start.at_or_before(dsack.end) && end.at_or_after(dsack.start)) {
    dsack = {.start = earliest(start, dsack.start), .end = latest(end, dsack.end)};
  }  // one DSACK block per ACK: any of them serves
}

void process_text(Core& core, Connection& c, const SegmentIn& segment, Nanos now,
                  Effects& effects) {
  if (segment.payload_bytes == 0) return;
  if (!is_one_of(c.state, kMayReceiveText)) {  // RFC 9293 3.10.7.4: the peer has sent its FIN
    effects.drop = Drop::kTcpOutOfWindow;
    return;
  }
  ReceiveState& rcv = c.rcv;
  SeqNum start = latest(segment.seq, rcv.nxt);
  SeqNum end = segment.seq + segment.payload_bytes;
  if (!may_overrun(c, segment)) end = earliest(end, rcv.edge);
  if (rcv.has_fin) end = earliest(end, rcv.fin_seq);
  if (!start.before(end)) {  // a probe into a closed window, or text after the FIN
    effects.drop = Drop::kTcpOutOfWindow;
    return ack_at_once(c, effects);
  }
  if (c.reader_gone) return refuse_after_close(c, segment, now, effects);
  note_ecn_of_text(c, segment, effects);
  if (segment.seq.before(start)) note_duplicate(c, segment.seq, start);
  measure_segment(c, segment);
  store_text(core, c, segment, start, end, now, effects);
}

/// Beyond the window, or below text that is already stored, the FIN is ignored. In order it is
/// accepted with any window: it takes no room, and the peer may send nothing else.
void take_first_fin(const Core& core, Connection& c, SeqNum at, Effects& effects) {
  ReceiveState& rcv = c.rcv;
  const bool is_in_window = at == rcv.nxt || (at.after(rcv.nxt) && at.before(rcv.edge));
  const bool cuts_held_text = rcv.run_tail != kNoNode && core.runs[rcv.run_tail].end().after(at);
  if (is_in_window && !cuts_held_text) {
    rcv.has_fin = true;
    rcv.fin_seq = at;
  } else {
    effects.drop = Drop::kTcpOutOfWindow;
  }
  ack_at_once(c, effects);
}

/// RFC 5681 4.2 and RFC 2018 4: a FIN behind a gap is answered and reported as text is, so that its
/// sender does not wait for its timeout to fill the gap.
void report_early_fin(Connection& c, Effects& effects) {
  const SeqNum at = c.rcv.fin_seq;
  if (c.has_sack) add_sack_block(c, {.start = at, .end = at + 1});
  ack_at_once(c, effects);
}

void process_fin(Core& core, Connection& c, const SegmentIn& segment, Nanos now, Effects& effects) {
  ReceiveState& rcv = c.rcv;
  if (segment.flags.has(wire::TcpFlags::kFin) && is_one_of(c.state, kMayReceiveText)) {
    const SeqNum at = segment.seq + segment.payload_bytes;
    if (!rcv.has_fin) take_first_fin(core, c, at, effects);
    const bool is_early = rcv.has_fin && rcv.fin_seq == at && rcv.nxt.before(at);
    if (is_early) report_early_fin(c, effects);
  }
  if (!rcv.has_fin || rcv.nxt != rcv.fin_seq || !is_one_of(c.state, kMayReceiveText)) return;
  rcv.nxt += 1;
  rcv.edge = latest(rcv.edge, rcv.nxt);
  drop_sack_blocks_below(c, rcv.nxt);
  effects.peer_finished = true;
  ack_at_once(c, effects);
  on_peer_fin(c, now, effects);
}

void release_charge(Connection& c, uint32_t charge_bytes, Nanos now, Effects& effects) {
  c.rcv.charged_bytes -= std::min(c.rcv.charged_bytes, charge_bytes);
  tune_receive_buffer(c, charge_bytes, now);
  // A FIN may be known whose text was refused.
  const bool may_come =
      is_one_of(c.state, kMayReceiveText) && (!c.rcv.has_fin || c.rcv.was_refused);
  if (!may_come) return;
  // The sender of refused text was told that there is no room. It must learn that there is now.
  const bool has_room_again =
      c.rcv.was_refused && c.rcv.charged_bytes < c.config.receive_buffer_bytes;
  if (!has_room_again && !is_window_update_due(c)) return;
  c.rcv.was_refused = false;
  ack_at_once(c, effects);
}

}  // namespace lyre::tcp
