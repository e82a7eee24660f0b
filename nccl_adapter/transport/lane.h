#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "nccl_adapter/transport/dial.h"
#include "nccl_adapter/transport/transport.h"

namespace lyre::nccl_adapter {

/// One of a comm's streams: its place among them, whether there is a session just now or not. A
/// lane for queue pairs is the same with a queue pair in the place of the session. Owner: the comm.
struct Lane final : SessionOwner {
  /// `waiter_in`, borrowed, is notified when something happened on the stream.
  Lane(SessionOwner* waiter_in, uint16_t number) : waiter(waiter_in), index(number) {}

  void on_ready() override { waiter->on_ready(); }
  bool is_up() const { return transport != nullptr; }
  /// See Transport::has_read_right().
  bool has_read_right() { return !is_up() || transport->has_read_right(); }
  /// Takes the place of what was there.
  void attach(std::unique_ptr<Transport> next, uint32_t number, int64_t now_ns);
  /// Ends the session, if any, without another word. What was sent is the caller's business.
  void drop();
  /// What this process copied for the lane, by all its sessions so far.
  uint64_t copied_bytes() const {
    return copied_before_bytes + (is_up() ? transport->copied_bytes() : 0);
  }
  /// Ends it in order. REQUIRES: is_up(), as all below.
  void close();
  /// Looks whether something moved since the last look. True if so.
  bool look(int64_t now_ns);
  /// How long nothing may be acknowledged before the stream counts as stalled.
  int64_t stall_ns() const;
  /// Nothing was acknowledged for that long although something should have been.
  bool is_stalled(int64_t now_ns) const;
  /// Another session shall not take the place of this one any more. What was tried meanwhile is
  /// forgotten: the next trouble begins where the session is.
  void want_again();
  /// Whether the session has the home pair, of `pairs` ones.
  bool is_at_home(size_t pairs) const { return attached_pair % pairs == home_pair % pairs; }
  /// What has gone well for long counts no more: the next trouble is treated as the first one.
  /// `is_at_home`: the session has the home pair.
  void forgive(int64_t now_ns, bool is_at_home);
  /// The session carried more than what passes any path.
  bool has_delivered() const { return acked_bytes >= kDeliveredBytesMin; }
  /// How much may be unacknowledged here, given in pieces of that size, which may be 0. Beside
  /// other streams it is less: the sooner what waits for a slow one can go over another.
  uint64_t room_bytes(uint64_t piece_bytes, bool is_alone) const;

  /// Delivered between two looks; `is_busy`: something was under way at one of them.
  void note_rate(uint64_t bytes_per_s, bool is_busy);

  SessionOwner* waiter;
  uint16_t index;
  bool is_for_queue_pairs = false;       ///< for its life
  uint32_t incarnation = 0;              ///< of the session
  uint32_t attached = 0;                 ///< how often there was one
  int64_t attached_ns = 0;               ///< since when
  uint32_t remade = 0;                   ///< how often one took another's place, or one was missed
  uint64_t copied_before_bytes = 0;      ///< see copied_bytes(): by those that are gone
  std::unique_ptr<Transport> transport;  ///< nullptr: no session
  FrameProgress reader;
  uint16_t version = kProtocolVersionMin;  ///< of the protocol that the session speaks
  Address local_address{};  ///< receiving comms, of a stream: this end's, or that of the last one

  // ---- Sending comms: what the stream carries, and its making ----
  std::deque<SentChunk> sent;  ///< not known to be placed
  QueuePairName told_lost{};   ///< the queue pair whose loss was said here last
  std::unique_ptr<Dial> dial;
  uint32_t dialled = 0;  ///< the last incarnation
  int64_t dial_since_ns = 0;
  int64_t redial_ns = 0;     ///< not before
  uint32_t failures = 0;     ///< in a row
  bool is_refused = false;   ///< this host's daemon had no place for what was dialled last
  uint32_t undelivered = 0;  ///< sessions in a row that stalled without having delivered data
  size_t home_pair = 0;      ///< the rail pair that it takes when it can
  size_t pair = 0;           ///< the one that it takes, or tries next
  size_t dialled_pair = 0;   ///< the one of `dial`
  size_t attached_pair = 0;  ///< the one of the last session; before the first one, home_pair
  size_t far_pairs = 0;      ///< how often one that is not near was tried
  uint32_t returns = 0;      ///< how often the home pair was tried; see forgive()
  bool is_unwanted = false;  ///< works, but another one shall take its place

  // ---- What is known of its path ----
  std::string path_text;  ///< "rail0 > 10.9.0.2:4711", or "from 10.9.0.1:4711"
  std::string rail_text;  ///< what of it others have in common: "over rail0", "from 10.9.0.1"
  bool has_received = false;
  bool is_missed = true;  ///< without a session it should have one, as far as this side knows
  /// Since when bytes wait for an acknowledgment that the peer could give.
  int64_t moved_ns = 0;
  int64_t answered_ns = 0;        ///< when the peer last acknowledged or said something
  uint64_t acked_bytes = 0;       ///< at the last look
  uint64_t unacked_bytes = 0;     ///< the same
  uint64_t backlog_bytes = 0;     ///< that were unacknowledged at the look before
  uint64_t gained_bytes = 0;      ///< acknowledged since that
  bool is_window_closed = false;  ///< at the last look
  int64_t looked_ns = 0;
  uint64_t rate_bytes_per_s = 0;  ///< the recent maximum of a busy stream; 0: not known
  int64_t replace_ns = 0;         ///< a slow path is not left before
  uint32_t replaced = 0;          ///< how often it was, for that reason; see forgive()
  /// Of these, how often no other stream of its rail pair was much faster; see forgive().
  uint32_t slow_again = 0;
};

}  // namespace lyre::nccl_adapter
