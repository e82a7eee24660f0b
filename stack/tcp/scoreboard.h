#pragma once

#include "stack/tcp/core.h"

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
  bool has_dsack = false;  ///< RFC 2883: `dsack` was received twice
  wire::SackBlock dsack;
};

/// RFC 2018 / 6675 / 8985: the records of one connection and the three lists that link them.
/// Every function keeps sacked_bytes, lost_bytes and record_count correct.
class Scoreboard {
 public:
  Scoreboard(Core& core, Connection& c) : core_(core), c_(c), list_(c.snd.sent) {}

  /// False when no record is free for new bytes.
  bool has_room() const;
  /// Records [snd.nxt, snd.nxt + bytes) as sent now. REQUIRES: has_room().
  void append(uint32_t bytes, Nanos now);
  /// Removes the records before `ack`.
  void ack_up_to(SeqNum ack, AckSample& sample);
  /// Marks [start, end) as SACKed. Without a free record for a split, the rest is unchanged.
  void mark_sacked(SeqNum start, SeqNum end, AckSample& sample);
  void mark_lost(uint32_t index);
  void mark_all_lost();
  /// Data that was marked lost and not retransmitted counts as in flight again.
  void revive_lost();
  /// RFC 2018 8: clears all SACK marks after a timeout, because the receiver may have discarded the
  /// data.
  void forget_sacks();
  /// `bytes` from the front of a record were retransmitted; the rest is unchanged.
  void mark_resent(uint32_t index, uint32_t bytes, Nanos now);
  /// Splits a record after its first `bytes`, or leaves it whole. Returns the index of the front
  /// part.
  uint32_t split_front(uint32_t index, uint32_t bytes);
  /// Splits the last `bytes` off the newest record. Returns the index of that part, or of the whole
  /// record.
  uint32_t split_tail(uint32_t bytes);
  void release_all();

  SentRecord& operator[](uint32_t index) { return core_.records[index]; }
  uint32_t first_in_time() const { return list_.time_head; }

 private:
  bool can_take() const;
  void note_delivered(const SentRecord& record, SeqNum end, AckSample& sample);
  uint32_t find(SeqNum start);
  bool split(uint32_t index, SeqNum at);
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
