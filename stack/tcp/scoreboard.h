#pragma once

#include <span>

#include "stack/tcp/core.h"
#include "stack/tcp/record_index.h"

namespace lyre::tcp {

/// What one ACK reveals about the network, collected while records are removed or SACKed.
struct AckSample {
  // In: identifies the transmission to which an ACK belongs.
  Nanos arrived_at;
  uint32_t ts_echo = 0;
  bool has_ts_echo = false;

  // Out.
  uint32_t delivered_bytes = 0;  ///< left the network with this ACK, cumulative or selective
  Nanos first_sent_at = kNever;  ///< of the earliest cumulatively acknowledged byte, if sent once
  Nanos last_sent_at = kNever;   ///< of the latest byte sent once, also SACKed: for the minimum RTT
  Nanos rtt;                     ///< from last_sent_at; zero: none
  Nanos late_rtt;                ///< the maximum of data out of order that was sent once
  bool acked_retransmission = false;
  bool has_path_probe = false;  ///< is_path_probe(): it has arrived
  bool has_dsack = false;       ///< RFC 2883: `dsack` was received twice
  wire::SackBlock dsack;
};

/// A connection may have a record more while it has at most one for so many free ones. So several
/// connections that take all they can leave a share to each of the others.
inline constexpr uint32_t kShareOfFreeRecords = 8;

/// RFC 2018 / 6675 / 8985: the records of one connection and the three lists that link them.
/// Every function keeps sacked_bytes, lost_bytes and record_count correct.
///
/// The peer cannot make it expensive: SACK blocks are rounded to whole segments, so that records
/// are at most as many as segments were sent; a connection has only a share of the free records; a
/// block is found in O(log n) (RecordIndex); and what is marked lost is in flight again without a
/// retransmission a few times in a window (kUndosPerWindowMax).
class Scoreboard {
 public:
  Scoreboard(Core& core, Connection& c) : core_(core), c_(c), list_(c.snd.sent) {}

  /// False when no record is free for new bytes.
  bool has_room() const;
  /// Records [snd.nxt, snd.nxt + bytes) as sent now in segments of `segment_bytes`. REQUIRES:
  /// has_room().
  void append(uint32_t bytes, uint16_t segment_bytes, Nanos now);
  /// Whether what is appended next can have a record of its own.
  bool can_take() const {
    // The pool has one record per connection beyond the shared ones. A connection with nothing
    // outstanding can therefore always send, and never depends on the ACKs of another.
    const uint32_t room = core_.records.room();
    const uint32_t own = core_.config.connections_max;
    return list_.record_count == 0 ||
           (room > own && list_.record_count <= (room - own) / kShareOfFreeRecords);
  }
  /// Removes the records before `ack`.
  void ack_up_to(SeqNum ack, AckSample& sample);
  /// Marks the whole segments in [start, end) as SACKed. A record that would have to be split while
  /// none is free is left as it is.
  void mark_sacked(SeqNum start, SeqNum end, AckSample& sample);
  void mark_lost(uint32_t index);
  void mark_all_lost();
  /// Data that was marked lost and not retransmitted counts as in flight again.
  void revive_lost();
  /// RFC 2018 8: the front is SACKed, and the cumulative ACK stopped there: the receiver has
  /// discarded it.
  bool has_discarded_front() const {
    return list_.seq_head != kNoNode &&
           core_.records[list_.seq_head].place == SentRecord::Place::kSacked;
  }
  /// What is SACKed in the first `records_max` records counts as lost.
  void forget_sacks(uint32_t records_max);
  /// `bytes` from the front of a record were retransmitted in segments of `segment_bytes`; the rest
  /// is unchanged.
  void mark_resent(uint32_t index, uint32_t bytes, uint16_t segment_bytes, Nanos now);
  /// Splits a record after its first `bytes`, or leaves it whole. Returns the index of the front
  /// part.
  uint32_t split_front(uint32_t index, uint32_t bytes);
  /// Splits the last `bytes` off the newest record. Returns the index of that part, or of the whole
  /// record.
  uint32_t split_tail(uint32_t bytes);
  void release_all();
  /// Links records that were taken for a connection without any. `by_queue`: those in flight in the
  /// order of time, and the lost ones in theirs; `by_sequence`: all of them.
  void restore(std::span<const uint32_t> by_queue, std::span<const uint32_t> by_sequence);

  /// The record that contains `at`, or the first one after it; kNoNode: none.
  uint32_t find(SeqNum at) { return index().find(list_.seq_tail, at); }
  SentRecord& operator[](uint32_t index) { return core_.records[index]; }
  uint32_t first_in_time() const { return list_.time_head; }

 private:
  bool may_grow(const SentRecord& tail) const;
  void note_delivered(const SentRecord& record, SeqNum end, AckSample& sample);
  bool split(uint32_t index, SeqNum at);
  RecordIndex index() { return {core_.records, list_.root, core_.isn_key.k1}; }
  void append_record(uint32_t bytes, uint16_t segment_bytes, Nanos now);
  uint32_t first_inside(SeqNum start);
  bool reduce_to(uint32_t index, SeqNum end);
  uint32_t lost_before(uint32_t index) const;
  void set_sacked(uint32_t index, AckSample& sample);
  void merge_with_next(uint32_t index);
  void leave_queue(uint32_t index);
  void link_queue_after(uint32_t index, uint32_t after, uint32_t& head, uint32_t& tail);
  void link_in_flight_after(uint32_t index, uint32_t after);
  void link_lost_after(uint32_t index, uint32_t after);
  void link_seq_after(uint32_t index, uint32_t after);
  void free_record(uint32_t index);

  Core& core_;
  Connection& c_;
  SentList& list_;
};

}  // namespace lyre::tcp
