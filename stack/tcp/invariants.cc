#include "stack/tcp/invariants.h"

#include "stack/base/check.h"
#include "stack/tcp/state_table.h"

namespace lyre::tcp {

namespace {

using Place = SentRecord::Place;

void check_send_space(const Connection& c) {
  const SendState& snd = c.snd;
  LYRE_CHECK(snd.una.at_or_before(snd.nxt));
  LYRE_CHECK(snd.nxt.at_or_before(snd.queue_end + (snd.fin_queued ? 1 : 0)));
  LYRE_CHECK(c.cc.cwnd_bytes > 0 || c.state == State::kClosed);
  LYRE_CHECK(snd.sent.sacked_bytes + snd.sent.lost_bytes <= snd.nxt.since(snd.una));
  const bool has_timer = c.deadline(Timer::kTimeout) != kNever;
  const bool waits = c.state != State::kClosed && snd.sent.record_count > 0;
  LYRE_CHECK(!waits || has_timer);  // a timer leads to the retransmission of unacknowledged data
}

/// Every recovery phase has its state, and no state outlives its phase.
void check_congestion(const Core& core, const Connection& c) {
  const RecoveryState& recovery = c.recovery;
  if (c.state == State::kClosed || is_one_of(c.state, kOpening)) return;
  LYRE_CHECK(congestion_is_sound(c.cc));
  LYRE_CHECK(recovery.recover.at_or_before(c.snd.nxt));
  if (c.is_repairing()) LYRE_CHECK(c.snd.una.before(recovery.recover));
  if (recovery.phase == RecoveryPhase::kEcnReduction) LYRE_CHECK(c.ecn.is_on);
  LYRE_CHECK(c.ecn.run_ack_count <= kRunAcksMax);
  const bool owes_anything =
      c.ecn.owes_echo || c.ecn.owes_cwr || c.ecn.last_was_marked || c.ecn.run_ack_count > 0;
  LYRE_CHECK(c.ecn.is_on || !owes_anything);
  if (recovery.undo == kNoNode) return;
  LYRE_CHECK(core.undos.is_taken(recovery.undo));
  LYRE_CHECK(core.undos[recovery.undo].una.at_or_before(c.snd.una));
}

/// The index has the records from the front of the list up to one of them, each below its parent.
void check_index(const Core& core, const SentList& list) {
  bool was_indexed = true;
  for (uint32_t i = list.seq_head; i != kNoNode; i = core.records[i].seq_next) {
    const SentRecord& record = core.records[i];
    LYRE_CHECK(was_indexed || !record.is_indexed);
    was_indexed = record.is_indexed;
    if (!was_indexed) continue;
    LYRE_CHECK(record.parent != kNoNode || list.root == i);
    for (const uint32_t child : {record.left, record.right}) {
      if (child == kNoNode) continue;
      LYRE_CHECK(core.records[child].is_indexed && core.records[child].parent == i);
      LYRE_CHECK((child == record.left) == core.records[child].start.before(record.start));
    }
  }
}

/// The records cover [una, nxt) without gaps, and every byte is counted in the right sum.
void check_sent_list(const Core& core, const Connection& c) {
  const SentList& list = c.snd.sent;
  SeqNum expected = c.snd.una;
  uint32_t sacked = 0, lost = 0, count = 0, in_flight_count = 0, lost_count = 0;
  uint32_t prev = kNoNode;
  for (uint32_t i = list.seq_head; i != kNoNode; i = core.records[i].seq_next) {
    LYRE_CHECK(core.records.is_taken(i));
    const SentRecord& record = core.records[i];
    LYRE_CHECK(record.seq_prev == prev);
    LYRE_CHECK(record.start == expected && record.start.before(record.end));
    LYRE_CHECK(record.cut_bytes < record.segment_bytes);
    expected = record.end;
    prev = i;
    ++count;
    if (record.place == Place::kSacked) sacked += record.bytes();
    if (record.place == Place::kLost) lost += record.bytes(), ++lost_count;
    if (record.place == Place::kInFlight) ++in_flight_count;
  }
  LYRE_CHECK(list.seq_tail == prev);
  LYRE_CHECK(expected == c.snd.nxt);
  LYRE_CHECK(count == list.record_count);
  LYRE_CHECK(sacked == list.sacked_bytes && lost == list.lost_bytes);
  check_index(core, list);
  Nanos last{INT64_MIN};
  for (uint32_t i = list.time_head; i != kNoNode; i = core.records[i].queue_next) {
    LYRE_CHECK(core.records[i].place == Place::kInFlight && in_flight_count > 0);
    LYRE_CHECK(core.records[i].sent_at >= last);
    last = core.records[i].sent_at;
    --in_flight_count;
  }
  for (uint32_t i = list.lost_head; i != kNoNode; i = core.records[i].queue_next) {
    LYRE_CHECK(core.records[i].place == Place::kLost && lost_count > 0);
    --lost_count;
  }
  LYRE_CHECK(in_flight_count == 0 && lost_count == 0);
}

void check_received(const Connection& c) {
  const ReceiveState& rcv = c.rcv;
  LYRE_CHECK(rcv.buffer_bytes <= c.config.receive_buffer_bytes);
  LYRE_CHECK(c.state == State::kSynSent || rcv.nxt.at_or_before(rcv.edge));
  LYRE_CHECK(!rcv.has_fin || rcv.nxt.at_or_before(rcv.fin_seq + 1));
}

}  // namespace

void check_connection(const Core& core, const Connection& c) {
  check_send_space(c);
  check_congestion(core, c);
  check_sent_list(core, c);
  check_received(c);
}

}  // namespace lyre::tcp
