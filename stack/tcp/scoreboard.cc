#include "stack/tcp/scoreboard.h"

#include "stack/base/check.h"
#include "stack/tcp/path_mtu.h"

namespace lyre::tcp {

using Place = SentRecord::Place;

namespace {

/// The bytes from the start of a segment of `record` to `at`, which lies in the record.
uint32_t bytes_into_segment(const SentRecord& record, SeqNum at) {
  return (at.since(record.start) + record.cut_bytes) % record.segment_bytes;
}

/// Whether a range that is sent in segments of `segment_bytes` has only full ones.
bool is_full(uint32_t bytes, uint16_t segment_bytes) {
  return bytes == segment_bytes || bytes % segment_bytes == 0;
}

/// The first segment of `record` that begins at `at` or later; its end if there is none.
SeqNum segment_from(const SentRecord& record, SeqNum at) {
  if (at.at_or_before(record.start)) return record.start;
  const uint32_t into = bytes_into_segment(record, at);
  return into == 0 ? at : earliest(at + (record.segment_bytes - into), record.end);
}

/// The end of the last segment of `record` that ends at `at` or before; its start if there is none.
SeqNum segment_until(const SentRecord& record, SeqNum at) {
  if (at.at_or_after(record.end)) return record.end;
  const uint32_t into = bytes_into_segment(record, at);
  return at.since(record.start) > into ? at - into : record.start;
}

void cut_front(SentRecord& record, SeqNum start) {
  record.cut_bytes = static_cast<uint16_t>(bytes_into_segment(record, start));
  record.start = start;
}

bool was_sent_before(const SentRecord& a, const SentRecord& b) {
  return a.sent_at != b.sent_at ? a.sent_at < b.sent_at : a.start.before(b.start);
}

}  // namespace

/// Whether `tail`, the newest record, can take what is sent next as well. The path probe must be
/// told from what follows it.
bool Scoreboard::may_grow(const SentRecord& tail) const {
  return tail.place == Place::kInFlight && !tail.is_retransmitted &&
         list_.time_tail == list_.seq_tail && !is_path_probe(c_, tail);
}

bool Scoreboard::has_room() const { return can_take() || may_grow(core_.records[list_.seq_tail]); }

void Scoreboard::append(uint32_t bytes, uint16_t segment_bytes, Nanos now) {
  if (list_.seq_tail == kNoNode) return append_record(bytes, segment_bytes, now);
  SentRecord& tail = core_.records[list_.seq_tail];
  const bool continues =
      tail.sent_at == now && tail.segment_bytes == segment_bytes && tail.ends_full;
  if (!may_grow(tail) || (!continues && can_take())) {
    return append_record(bytes, segment_bytes, now);
  }
  tail.end += bytes;
  tail.sent_at = now;
  tail.ends_full = is_full(bytes, segment_bytes);
}

void Scoreboard::append_record(uint32_t bytes, uint16_t segment_bytes, Nanos now) {
  const uint32_t index = core_.records.take();
  LYRE_CHECK(index != kNoNode);  // the caller called has_room(), or it is the connection's first
  SentRecord& record = core_.records[index];
  record.start = c_.snd.nxt;
  record.end = record.start + bytes;
  record.sent_at = now;
  record.segment_bytes = segment_bytes;
  record.ends_full = is_full(bytes, segment_bytes);
  ++list_.record_count;
  link_seq_after(index, list_.seq_tail);
  link_in_flight_after(index, list_.time_tail);
}

void Scoreboard::ack_up_to(SeqNum ack, AckSample& sample) {
  while (list_.seq_head != kNoNode) {
    const uint32_t index = list_.seq_head;
    SentRecord& record = core_.records[index];
    if (ack.at_or_before(record.start)) return;
    const SeqNum end = earliest(ack, record.end);
    const uint32_t bytes = end.since(record.start);
    switch (record.place) {
      case Place::kSacked:
        list_.sacked_bytes -= bytes;
        break;
      case Place::kLost:
        list_.lost_bytes -= bytes;
        [[fallthrough]];
      case Place::kInFlight:
        sample.delivered_bytes += bytes;
        note_delivered(record, end, sample);
        if (record.is_retransmitted) {
          sample.acked_retransmission = true;
        } else {
          sample.first_sent_at = earlier(sample.first_sent_at, record.sent_at);
        }
        break;
    }
    if (end != record.end) {
      cut_front(record, end);
      return;
    }
    leave_queue(index);
    free_record(index);
  }
}

void Scoreboard::note_delivered(const SentRecord& record, SeqNum end, AckSample& sample) {
  RecoveryState& recovery = c_.recovery;
  if (is_path_probe(c_, record)) sample.has_path_probe = true;
  const Nanos rtt = later(sample.arrived_at - record.sent_at, nanos(1));
  if (!record.is_retransmitted) {
    sample.last_sent_at =
        sample.last_sent_at == kNever ? record.sent_at : later(sample.last_sent_at, record.sent_at);
    // RFC 8985 6.2 step 3: it arrived below data that had already arrived, and was sent once.
    if (recovery.rack_valid && end.before(recovery.rack_fack)) {
      recovery.saw_reordering = true;
      sample.late_rtt = later(sample.late_rtt, rtt);
    }
  } else {
    // RFC 8985 6.2 step 2: the ACK may be for the first transmission.
    if (sample.has_ts_echo &&
        SeqNum(sample.ts_echo).before(SeqNum(timestamp_at(c_, record.sent_at)))) {
      return;
    }
    if (rtt < c_.rtt.rtt_min) return;
  }
  if (!recovery.rack_valid || end.after(recovery.rack_fack)) recovery.rack_fack = end;
  const bool is_later = !recovery.rack_valid || record.sent_at > recovery.rack_sent_at ||
                        (record.sent_at == recovery.rack_sent_at && end.after(recovery.rack_end));
  if (is_later) {
    recovery.rack_valid = true;
    recovery.rack_sent_at = record.sent_at;
    recovery.rack_end = end;
    recovery.rack_rtt = rtt;
  }
  // RFC 8985 6.2 step 2 takes RACK.rtt from each segment that an ACK delivers: a segment that
  // arrived late shows how late its neighbours may still arrive.
  recovery.rack_rtt = later(recovery.rack_rtt, sample.late_rtt);
}

/// The record in which the first whole segment at or after `start` lies and begins.
uint32_t Scoreboard::first_inside(SeqNum start) {
  const uint32_t index = this->index().find(list_.seq_tail, start);
  if (index == kNoNode || core_.records[index].place == Place::kSacked) return index;
  const SentRecord& record = core_.records[index];
  const SeqNum from = segment_from(record, start);
  // Without a record for the split the next one is the first.
  if (from != record.start && from != record.end) split(index, from);
  return from == record.start ? index : core_.records[index].seq_next;
}

/// Cuts the record at the end of its last segment before `end`. False when it has none.
bool Scoreboard::reduce_to(uint32_t index, SeqNum end) {
  const SentRecord& record = core_.records[index];
  const SeqNum until = segment_until(record, end);
  return until == record.end || (until != record.start && split(index, until));
}

void Scoreboard::mark_sacked(SeqNum start, SeqNum end, AckSample& sample) {
  uint32_t index = first_inside(start);
  while (index != kNoNode && core_.records[index].start.before(end)) {
    if (core_.records[index].place != Place::kSacked) {
      if (!reduce_to(index, end)) return;
      set_sacked(index, sample);
    }
    // Adjacent SACKed records are merged, so the number of records depends on the number of holes
    // only.
    const uint32_t before = core_.records[index].seq_prev;
    if (before != kNoNode && core_.records[before].place == Place::kSacked) {
      merge_with_next(before);
      index = before;
    }
    const uint32_t next = core_.records[index].seq_next;
    if (next != kNoNode && core_.records[next].place == Place::kSacked) {
      merge_with_next(index);
    }
    index = core_.records[index].seq_next;
  }
}

void Scoreboard::set_sacked(uint32_t index, AckSample& sample) {
  SentRecord& record = core_.records[index];
  note_delivered(record, record.end, sample);
  sample.delivered_bytes += record.bytes();
  if (record.place == Place::kLost) list_.lost_bytes -= record.bytes();
  leave_queue(index);
  record.place = Place::kSacked;
  list_.sacked_bytes += record.bytes();
}

void Scoreboard::merge_with_next(uint32_t index) {
  const uint32_t next = core_.records[index].seq_next;
  core_.records[index].end = core_.records[next].end;
  core_.records[index].ends_pushed = core_.records[next].ends_pushed;
  free_record(next);
}

bool Scoreboard::split(uint32_t index, SeqNum at) {
  if (!can_take()) return false;
  const uint32_t right = core_.records.take();
  SentRecord& record = core_.records[index];
  core_.records[right] = record;
  cut_front(core_.records[right], at);
  record.end = at;
  record.ends_pushed = false;
  ++list_.record_count;
  link_seq_after(right, index);
  this->index().split(index, right);
  if (record.place == Place::kInFlight) link_in_flight_after(right, index);
  if (record.place == Place::kLost) link_lost_after(right, index);
  return true;
}

void Scoreboard::mark_lost(uint32_t index) {
  SentRecord& record = core_.records[index];
  LYRE_CHECK(record.place == Place::kInFlight);  // callers iterate over records in flight
  leave_queue(index);
  record.place = Place::kLost;
  list_.lost_bytes += record.bytes();
  // RFC 6675 4, NextSeg: the lowest is sent first. Losses are mostly detected in that order
  // already.
  link_lost_after(index, lost_before(index));
}

/// The last record in the lost list whose sequence is lower. Between its ends the list is searched
/// from `index` in both directions: the nearest lost record tells the place.
uint32_t Scoreboard::lost_before(uint32_t index) const {
  const SeqNum start = core_.records[index].start;
  if (list_.lost_tail == kNoNode || core_.records[list_.lost_tail].start.before(start)) {
    return list_.lost_tail;
  }
  if (core_.records[list_.lost_head].start.after(start)) return kNoNode;
  uint32_t below = index, above = index;
  while (true) {
    below = core_.records[below].seq_prev;
    if (core_.records[below].place == Place::kLost) return below;
    above = core_.records[above].seq_next;
    if (core_.records[above].place == Place::kLost) return core_.records[above].queue_prev;
  }
}

void Scoreboard::mark_all_lost() {
  // Rebuilt in order of sequence: RFC 6675 5.1 sends the lowest first after a timeout.
  list_.time_head = list_.time_tail = list_.lost_head = list_.lost_tail = kNoNode;
  list_.lost_bytes = 0;
  for (uint32_t index = list_.seq_head; index != kNoNode; index = core_.records[index].seq_next) {
    SentRecord& record = core_.records[index];
    if (record.place == Place::kSacked) continue;
    record.place = Place::kLost;
    list_.lost_bytes += record.bytes();
    link_lost_after(index, list_.lost_tail);
  }
}

void Scoreboard::revive_lost() {
  // For data that was sent once, the order of sequence is the order of time: one pass merges the
  // two lists.
  uint32_t later = list_.time_head;
  for (uint32_t index = list_.lost_head; index != kNoNode;) {
    SentRecord& record = core_.records[index];
    const uint32_t next = record.queue_next;
    if (!record.is_retransmitted) {
      leave_queue(index);
      record.place = Place::kInFlight;
      list_.lost_bytes -= record.bytes();
      while (later != kNoNode && was_sent_before(core_.records[later], record)) {
        later = core_.records[later].queue_next;
      }
      link_in_flight_after(index,
                           later == kNoNode ? list_.time_tail : core_.records[later].queue_prev);
    }
    index = next;
  }
}

void Scoreboard::forget_sacks(uint32_t records_max) {
  uint32_t lost_before = kNoNode;
  uint32_t index = list_.seq_head;
  for (uint32_t i = 0; i < records_max && list_.sacked_bytes > 0; ++i) {
    SentRecord& record = core_.records[index];
    if (record.place == Place::kSacked) {
      list_.sacked_bytes -= record.bytes();
      record.place = Place::kLost;
      record.is_retransmitted = true;  // merged from several records: gives no RTT sample
      list_.lost_bytes += record.bytes();
      link_lost_after(index, lost_before);
    }
    if (record.place == Place::kLost) lost_before = index;
    index = record.seq_next;
  }
}

void Scoreboard::mark_resent(uint32_t index, uint32_t bytes, uint16_t segment_bytes, Nanos now) {
  SentRecord& record = core_.records[index];
  // Without a free record the whole range counts as retransmitted; a later timeout finds the rest.
  if (bytes < record.bytes()) split(index, record.start + bytes);
  leave_queue(index);
  if (record.place == Place::kLost) list_.lost_bytes -= record.bytes();
  record.place = Place::kInFlight;
  record.is_retransmitted = true;
  record.sent_at = now;
  record.segment_bytes = segment_bytes;
  record.cut_bytes = 0;
  link_in_flight_after(index, list_.time_tail);
}

uint32_t Scoreboard::split_front(uint32_t index, uint32_t bytes) {
  const SentRecord& record = core_.records[index];
  if (record.bytes() > bytes) split(index, record.start + bytes);
  return index;
}

uint32_t Scoreboard::split_tail(uint32_t bytes) {
  const uint32_t tail = list_.seq_tail;
  if (tail == kNoNode || core_.records[tail].bytes() <= bytes) return tail;
  return split(tail, core_.records[tail].end - bytes) ? list_.seq_tail : tail;
}

void Scoreboard::release_all() {
  while (list_.seq_head != kNoNode) {
    const uint32_t index = list_.seq_head;
    list_.seq_head = core_.records[index].seq_next;
    core_.records.give_back(index);
  }
  list_ = SentList{};
}

void Scoreboard::restore(std::span<const uint32_t> by_queue,
                         std::span<const uint32_t> by_sequence) {
  list_ = SentList{};
  for (const uint32_t index : by_sequence) {
    const SentRecord& record = core_.records[index];
    link_seq_after(index, list_.seq_tail);
    ++list_.record_count;
    if (record.place == Place::kSacked) list_.sacked_bytes += record.bytes();
    if (record.place == Place::kLost) list_.lost_bytes += record.bytes();
  }
  for (const uint32_t index : by_queue) {
    const Place place = core_.records[index].place;
    if (place == Place::kInFlight) link_in_flight_after(index, list_.time_tail);
    if (place == Place::kLost) link_lost_after(index, list_.lost_tail);
  }
}

void Scoreboard::leave_queue(uint32_t index) {
  SentRecord& record = core_.records[index];
  if (record.place == Place::kSacked) return;
  const bool is_lost = record.place == Place::kLost;
  uint32_t& head = is_lost ? list_.lost_head : list_.time_head;
  uint32_t& tail = is_lost ? list_.lost_tail : list_.time_tail;
  (record.queue_prev == kNoNode ? head : core_.records[record.queue_prev].queue_next) =
      record.queue_next;
  (record.queue_next == kNoNode ? tail : core_.records[record.queue_next].queue_prev) =
      record.queue_prev;
  record.queue_next = record.queue_prev = kNoNode;
}

void Scoreboard::link_queue_after(uint32_t index, uint32_t after, uint32_t& head, uint32_t& tail) {
  SentRecord& record = core_.records[index];
  uint32_t& forward = after == kNoNode ? head : core_.records[after].queue_next;
  record.queue_prev = after;
  record.queue_next = forward;
  forward = index;
  (record.queue_next == kNoNode ? tail : core_.records[record.queue_next].queue_prev) = index;
}

void Scoreboard::link_in_flight_after(uint32_t index, uint32_t after) {
  link_queue_after(index, after, list_.time_head, list_.time_tail);
}

void Scoreboard::link_lost_after(uint32_t index, uint32_t after) {
  link_queue_after(index, after, list_.lost_head, list_.lost_tail);
}

void Scoreboard::link_seq_after(uint32_t index, uint32_t after) {
  SentRecord& record = core_.records[index];
  record.seq_prev = after;
  uint32_t& forward = after == kNoNode ? list_.seq_head : core_.records[after].seq_next;
  record.seq_next = forward;
  forward = index;
  (record.seq_next == kNoNode ? list_.seq_tail : core_.records[record.seq_next].seq_prev) = index;
}

void Scoreboard::free_record(uint32_t index) {
  SentRecord& record = core_.records[index];
  (record.seq_prev == kNoNode ? list_.seq_head : core_.records[record.seq_prev].seq_next) =
      record.seq_next;
  (record.seq_next == kNoNode ? list_.seq_tail : core_.records[record.seq_next].seq_prev) =
      record.seq_prev;
  if (record.is_indexed) this->index().erase(index);
  --list_.record_count;
  core_.records.give_back(index);
}

}  // namespace lyre::tcp
