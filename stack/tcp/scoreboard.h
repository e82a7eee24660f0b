#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// What one ACK told about the network, gathered while records leave or get SACKed.
struct AckSample {
  // In: what is needed to tell which transmission an ACK answers.
  Nanos arrived_at;
  uint32_t ts_echo = 0;
  bool has_ts_echo = false;

  // Out.
  uint32_t delivered_bytes = 0;  ///< left the network with this ACK, cumulative or selective
  Nanos first_sent_at = kNever;  ///< earliest sent-once byte acknowledged cumulatively: Karn
  Nanos last_sent_at = kNever;   ///< latest such byte, SACKed ones too: least round trip
  Nanos rtt;                     ///< from last_sent_at; zero: none
  Nanos late_rtt;                ///< longest of what arrived out of order, sent once
  bool acked_retransmission = false;
  bool has_dsack = false;  ///< RFC 2883: `dsack` arrived twice
  wire::SackBlock dsack;
};

/// RFC 2018 / 6675 / 8985: the records of one connection and the three lists they hang in.
/// Every function keeps sacked_bytes, lost_bytes and record_count true.
class Scoreboard {
 public:
  Scoreboard(Core& core, Connection& c) : core_(core), c_(c), list_(c.snd.sent) {}

  /// False when sending new bytes now would find no record to remember them by.
  bool has_room() const;
  /// Remembers [snd.nxt, snd.nxt + bytes) as sent now. REQUIRES: has_room().
  void append(uint32_t bytes, Nanos now);
  /// Drops what lies before `ack`.
  void ack_up_to(SeqNum ack, AckSample& sample);
  /// Marks [start, end) as arrived. Without a free record for a split the rest stays as it was.
  void mark_sacked(SeqNum start, SeqNum end, AckSample& sample);
  void mark_lost(uint32_t index);
  void mark_all_lost();
  /// What was marked lost and never sent again counts as in flight once more.
  void revive_lost();
  /// RFC 2018 8: after a timeout the receiver may have thrown away what it SACKed.
  void forget_sacks();
  /// `bytes` from the front of a record are on the wire again; the rest stays where it was.
  void mark_resent(uint32_t index, uint32_t bytes, Nanos now);
  /// Cuts a record behind its first `bytes`, or leaves it whole. Index of the front piece.
  uint32_t split_front(uint32_t index, uint32_t bytes);
  /// Cuts the last `bytes` off the newest record. Index of the cut piece, or the whole record.
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
