#include "stack/tcp/connection_record.h"

#include <algorithm>
#include <vector>

#include "stack/base/check.h"
#include "stack/tcp/connection_fields.h"
#include "stack/tcp/receive_window.h"
#include "stack/tcp/scoreboard.h"
#include "stack/tcp/state_table.h"
#include "stack/tcp/timers.h"
#include "stack/tcp/undo.h"

namespace lyre::tcp {

namespace {

using record::Kind;
using Place = SentRecord::Place;

/// What a client may have queued (channel::kSendsOutstandingMax of kSendBytesMax each), a SYN and a
/// FIN; about half of what lies between two numbers that have no order.
constexpr uint32_t kDistanceMax = (1u << 30) + 2;

bool is_between(SeqNum low, SeqNum middle, SeqNum high) {
  return middle.since(low) <= kDistanceMax && high.since(middle) <= kDistanceMax;
}

constexpr uint16_t kHasQueuedFin = static_cast<uint16_t>(
    state_bit(State::kFinWait1) | state_bit(State::kFinWait2) | state_bit(State::kClosing) |
    state_bit(State::kLastAck) | state_bit(State::kTimeWait));
constexpr uint16_t kHasNoFin =
    static_cast<uint16_t>(state_bit(State::kEstablished) | state_bit(State::kCloseWait));
constexpr uint16_t kIsFinAcked =
    static_cast<uint16_t>(state_bit(State::kFinWait2) | state_bit(State::kTimeWait));
constexpr uint16_t kHasPeersFin =
    static_cast<uint16_t>(state_bit(State::kCloseWait) | state_bit(State::kClosing) |
                          state_bit(State::kLastAck) | state_bit(State::kTimeWait));

/// RFC 9293 3.3.1, and what the state says about the FIN.
bool is_send_space_sound(const Connection& c) {
  const SendState& snd = c.snd;
  const SeqNum end = snd.queue_end + (snd.fin_queued ? 1 : 0);
  if (!is_between(snd.una, snd.nxt, end) || snd.mss_bytes == 0) {
    return false;
  }
  if (c.state == State::kClosed) return true;
  if (snd.mss_full_bytes == 0 && !is_one_of(c.state, kOpening)) return false;
  const bool has_synced = c.is_syn_acked();
  if (!has_synced && (snd.una != snd.iss || snd.nxt.since(snd.iss) > 1 || snd.queue_end == snd.iss))
    return false;
  if (is_one_of(c.state, kHasQueuedFin) && !snd.fin_queued) return false;
  if (is_one_of(c.state, kHasNoFin) && snd.fin_queued) return false;
  return is_one_of(c.state, kIsFinAcked) == (snd.fin_queued && snd.una == end && has_synced);
}

bool is_receive_space_sound(const Connection& c) {
  const ReceiveState& rcv = c.rcv;
  if (rcv.buffer_bytes > c.config.receive_buffer_bytes) return false;
  if (c.state == State::kClosed) return true;
  if (c.state != State::kSynSent && rcv.edge.since(rcv.nxt) > kDistanceMax) return false;
  const bool is_fin_taken = rcv.has_fin && rcv.nxt == rcv.fin_seq + 1;
  if (rcv.has_fin && !is_fin_taken && rcv.fin_seq.since(rcv.nxt) > kDistanceMax) return false;
  return is_one_of(c.state, kHasPeersFin) == is_fin_taken;
}

bool is_congestion_sound(const Connection& c) {
  const EcnState& ecn = c.ecn;
  const RecoveryState& recovery = c.recovery;
  const bool owes_anything =
      ecn.owes_echo || ecn.owes_cwr || ecn.last_was_marked || ecn.run_ack_count > 0;
  if (owes_anything && !ecn.is_on) return false;
  if (recovery.phase == RecoveryPhase::kEcnReduction && !ecn.is_on) return false;
  if (c.rtt.rto.value == 0) return false;
  if (c.state == State::kClosed || is_one_of(c.state, kOpening)) return true;
  if (!congestion_is_sound(c.cc) || c.cc.mss_bytes == 0) return false;
  if (recovery.recover.after(c.snd.nxt)) return false;
  return !c.is_repairing() || c.snd.una.before(recovery.recover);
}

/// What is outstanding has a timer, which leads to its retransmission; handshakes and TIME-WAIT
/// end.
bool has_timer(const Connection& c) {
  if (is_one_of(c.state, kOpening) && c.deadline(Timer::kGiveUp) == kNever) return false;
  if (c.state == State::kTimeWait && c.deadline(Timer::kIdle) == kNever) return false;
  return c.state == State::kClosed || c.snd.sent.record_count == 0 ||
         c.deadline(Timer::kTimeout) != kNever;
}

bool is_sound(const Connection& c) {
  return is_send_space_sound(c) && is_receive_space_sound(c) && is_congestion_sound(c) &&
         c.tuple.local.address.is_v4() == c.tuple.remote.address.is_v4();
}

void write_sent(const SentRecord& sent, record::Writer& out) {
  out.add(Kind::kSent, kSentRecordVersion,
          [&](record::FieldWriter& fields) { list_sent(fields, sent); });
}

/// In the order of the lists: in flight by time, lost by retransmission, then what is SACKed.
void write_all_sent(const Core& core, const SentList& list, record::Writer& out) {
  for (const uint32_t head : {list.time_head, list.lost_head}) {
    for (uint32_t i = head; i != kNoNode; i = core.records[i].queue_next) {
      write_sent(core.records[i], out);
    }
  }
  for (uint32_t i = list.seq_head; i != kNoNode; i = core.records[i].seq_next) {
    if (core.records[i].place == Place::kSacked) write_sent(core.records[i], out);
  }
}

bool is_sound(const SentRecord& sent, const Connection& c) {
  const uint32_t bytes = sent.end.since(sent.start);
  return bytes > 0 && bytes <= kDistanceMax && sent.start.at_or_after(c.snd.una) &&
         sent.end.at_or_before(c.snd.nxt) && sent.cut_bytes < sent.segment_bytes;
}

/// Takes `count` records of sent data. Those that were taken are in `taken`, in the order of the
/// stream.
bool read_all_sent(Core& core, Connection& c, uint32_t count, record::Reader& in,
                   std::vector<uint32_t>& taken) {
  for (uint32_t i = 0; i < count; ++i) {
    SentRecord sent;
    const auto list = [&](record::FieldReader& fields) { list_sent(fields, sent); };
    if (!in.take(Kind::kSent, kSentRecordVersion, list) || !is_sound(sent, c)) return false;
    const uint32_t index = core.records.take();
    if (index == kNoNode) return false;
    core.records[index] = sent;
    taken.push_back(index);
  }
  return true;
}

/// Records in flight are in the order of their time, and what is sent from `now` on comes behind
/// them.
bool are_in_order_of_time(const Core& core, const std::vector<uint32_t>& taken, Nanos now) {
  const SentRecord* last = nullptr;
  for (const uint32_t index : taken) {
    const SentRecord& sent = core.records[index];
    if (sent.place != Place::kInFlight) continue;
    if (sent.sent_at > now) return false;
    if (last != nullptr && sent.sent_at < last->sent_at) return false;
    last = &sent;
  }
  return true;
}

/// The records, in the order of sequence, cover all that is outstanding.
bool cover_all(const Core& core, const Connection& c, const std::vector<uint32_t>& by_sequence) {
  SeqNum expected = c.snd.una;
  for (const uint32_t index : by_sequence) {
    if (core.records[index].start != expected) return false;
    expected = core.records[index].end;
  }
  return expected == c.snd.nxt;
}

bool restore_sent(Core& core, Connection& c, uint32_t count, Nanos now, record::Reader& in) {
  std::vector<uint32_t> taken;
  std::vector<uint32_t> by_sequence;
  bool is_good = read_all_sent(core, c, count, in, taken) && are_in_order_of_time(core, taken, now);
  if (is_good) {
    by_sequence = taken;
    std::sort(by_sequence.begin(), by_sequence.end(), [&](uint32_t a, uint32_t b) {
      return core.records[a].start.since(c.snd.una) < core.records[b].start.since(c.snd.una);
    });
    is_good = cover_all(core, c, by_sequence);
  }
  if (!is_good) {
    for (const uint32_t index : taken) core.records.give_back(index);
    return false;
  }
  Scoreboard(core, c).restore(taken, by_sequence);
  return true;
}

bool read_undo(Core& core, Connection& c, record::Reader& in) {
  UndoState undo;
  const auto list = [&](record::FieldReader& fields) { list_undo(fields, undo); };
  if (!in.take(Kind::kUndo, kUndoRecordVersion, list)) return false;
  if (c.snd.una.since(undo.una) > kDistanceMax) return false;
  c.recovery.undo = core.undos.take();
  if (c.recovery.undo == kNoNode) return false;
  core.undos[c.recovery.undo] = undo;
  return true;
}

/// Where the text may lie: in order, or behind a gap; and behind what there is.
bool fits(const Core& core, const ReceiveState& rcv, SeqNum text_end, const ReceivedText& text) {
  const SeqNum end = text.start + text.payload.length;
  const bool is_behind_gap = text.start.after(text_end);
  if (text.payload.length == 0 || text.payload.length > kDistanceMax) return false;
  const uint32_t distance = is_behind_gap ? text.start.since(text_end) : text_end.since(text.start);
  if (distance > kDistanceMax || (!is_behind_gap && end.after(text_end))) return false;
  if (rcv.has_fin && end.after(rcv.fin_seq)) return false;
  return rcv.run_tail == kNoNode || text.start.at_or_after(core.runs[rcv.run_tail].end());
}

/// With nothing outstanding, a timeout would begin the repair of nothing.
void forget_retransmission(Connection& c) {
  for (const Timer timer : {Timer::kTimeout, Timer::kTailProbe, Timer::kReorder}) {
    c.deadline(timer) = kNever;
  }
}

/// An earlier daemon ran the tail loss probe instead of the timeout.
void run_timeout_beside_tail_probe(Connection& c) {
  const Nanos probe = c.deadline(Timer::kTailProbe);
  Nanos& timeout = c.deadline(Timer::kTimeout);
  if (probe != kNever && timeout == kNever) timeout = probe + current_rto(c);
}

/// `c` gets no list unless all is right.
bool read_connection(Core& core, Connection& c, uint32_t slot_bytes, Nanos now,
                     record::Reader& in) {
  uint32_t sent_count = 0;
  bool has_undo = false;
  const auto list = [&](record::FieldReader& fields) {
    list_connection(fields, c);
    fields.number(sent_count);
    fields.flag(has_undo);
  };
  if (!in.take(Kind::kConnection, kConnectionRecordVersion, list) || !is_sound(c)) return false;
  if (!c.has_outstanding()) forget_retransmission(c);
  run_timeout_beside_tail_probe(c);
  c.config.slot_bytes = slot_bytes;
  c.config.receive_buffer_bytes = workable_buffer_bytes(c.config, c.config.receive_buffer_bytes);
  if (!restore_sent(core, c, sent_count, now, in)) return false;
  if (has_timer(c) && (!has_undo || read_undo(core, c, in))) return true;
  Scoreboard(core, c).release_all();
  return false;
}

}  // namespace

void ConnectionRecords::write(ConnId conn, record::Writer& out) const {
  const Connection& c = core_.connections[conn];
  const bool has_undo = c.recovery.undo != kNoNode;
  out.add(Kind::kConnection, kConnectionRecordVersion, [&](record::FieldWriter& fields) {
    list_connection(fields, c);
    fields.number(c.snd.sent.record_count);
    fields.flag(has_undo);
  });
  write_all_sent(core_, c.snd.sent, out);
  if (!has_undo) return;
  out.add(Kind::kUndo, kUndoRecordVersion,
          [&](record::FieldWriter& fields) { list_undo(fields, core_.undos[c.recovery.undo]); });
}

bool ConnectionRecords::read(ConnId conn, uint32_t slot_bytes, Nanos now, record::Reader& in) {
  core_.connections.take_at(conn);
  if (read_connection(core_, core_.connections[conn], slot_bytes, now, in)) return true;
  core_.connections.give_back(conn);
  return false;
}

void ConnectionRecords::open_closed(ConnId conn) {
  if (conn >= core_.connections.touched()) return core_.connections.take_at(conn);
  LYRE_CHECK(core_.connections.take() == conn);  // read() gave it back last
}

bool ConnectionRecords::restore_text(ConnId conn, const ReceivedText& text) {
  ReceiveState& rcv = core_.connections[conn].rcv;
  const SeqNum text_end = queue_of(core_, core_.connections[conn]).text_end();
  if (!fits(core_, rcv, text_end, text)) return false;
  const uint32_t index = core_.runs.take();
  if (index == kNoNode) return false;
  core_.runs[index] = {.start = text.start,
                       .length = text.payload.length,
                       .offset = text.payload.offset,
                       .charge_bytes = text.charge_bytes,
                       .handle = text.payload.handle,
                       .prev = rcv.run_tail};
  (rcv.run_tail == kNoNode ? rcv.run_head : core_.runs[rcv.run_tail].next) = index;
  rcv.run_tail = index;
  if (text.start.after(text_end)) {
    const uint32_t left = rcv.gap_head == kNoNode ? kNoNode : core_.runs[index].prev;
    run_index(core_, core_.connections[conn]).insert_after(left, index);
    if (left == kNoNode) rcv.gap_head = index;
  }
  rcv.charged_bytes += text.charge_bytes;
  return true;
}

void ConnectionRecords::restore_charge(ConnId conn, uint32_t charge_bytes) {
  core_.connections[conn].rcv.charged_bytes += charge_bytes;
}

void ConnectionRecords::speak_up(ConnId conn) {
  Connection& c = core_.connections[conn];
  constexpr uint16_t kIsSilent =
      static_cast<uint16_t>(kOpening | state_bit(State::kClosed) | state_bit(State::kTimeWait));
  if (is_one_of(c.state, kIsSilent)) return;
  c.rcv.ack_now = true;
  c.rcv.was_refused = false;  // by another pool: what this one has no room for is refused anew
}

}  // namespace lyre::tcp
