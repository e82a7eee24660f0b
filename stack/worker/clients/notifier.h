#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "stack/base/check.h"
#include "stack/base/ip_address.h"
#include "stack/base/nanos.h"
#include "stack/base/slab.h"
#include "stack/channel/abi.h"
#include "stack/channel/control.h"
#include "stack/channel/stats.h"
#include "stack/session/session.h"
#include "stack/worker/clients/context.h"
#include "stack/worker/clients/context_table.h"
#include "stack/worker/clients/context_walk.h"
#include "stack/worker/clients/copy_blocks.h"
#include "stack/worker/tables/held_sessions.h"
#include "stack/worker/tables/slot_loans.h"
#include "stack/worker/turn_limits.h"

namespace lyre::worker {

/// Received bytes of one packet, next in order.
struct ReceivedBytes {
  uint32_t slot = 0;
  std::span<const uint8_t> bytes;
  uint64_t pool_offset = 0;  ///< of the bytes, in the memory of the receive pool
};

/// What the notifier asks of the worker. A conn is the index of a session that a context owns.
template <typename H>
concept NotifierHost = requires(H& host, uint32_t conn, Context& context) {
  { host.tuple(conn) } -> std::convertible_to<const FourTuple&>;
  { host.send_side(conn) } -> std::convertible_to<tcp::SendSide>;
  // Whether the context may have more of the receive pool than it has.
  { host.may_lend(conn) } -> std::convertible_to<bool>;
  // Takes the next bytes that the session has to read; their slot is the caller's.
  { host.take_received(conn) } -> std::convertible_to<std::optional<ReceivedBytes>>;
  host.release_slot(conn, uint32_t{});
  // The session's window may open by so much of its charge.
  host.return_charge(conn, uint32_t{});
  // Whether the port may still read memory that the client would get back now. Then
  // mark() has to be called when that is over.
  { host.must_wait_for_port(conn) } -> std::convertible_to<bool>;
  // The client was told of the open, or of the end. After the end it does not name the session.
  host.on_open_told(conn);
  host.on_end_told(conn);
  host.expel(context, "reason");
};

/// Tells clients what happened to their sessions. A session remembers what its client must still
/// be told and stands in its context's list until all of it was written to the completion ring, so
/// a full ring loses nothing. What only waits for a port leaves that list meanwhile.
/// Owner: *borrows* the tables. Thread: the worker.
class Notifier {
 public:
  struct Tables {
    ContextTable& contexts;
    session::Session* sessions;
    SlotLoans& loans;
    channel::WorkerStats& stats;
  };
  struct Pool {
    uint8_t index = 0;  ///< of the receive pool, as clients number them
    uint32_t slot_bytes = 0;
  };

  /// `contexts_max`: clients at one time.
  Notifier(const Tables& tables, const Pool& pool, uint32_t contexts_max)
      : tables_(tables),
        pool_(pool),
        held_(tables.sessions, channel::kPortsMax),
        failed_opens_(contexts_max * kFailedOpensPerContextMax) {}

  /// The session has pending events. No effect on a session that no context owns.
  void mark(uint32_t conn) {
    const session::Session& marked = tables_.sessions[conn];
    if (marked.context == session::kNoContext) return;
    if (marked.dirty_link.is_linked()) {
      if (!marked.waits_for_port) return;
      end_wait(conn);
    }
    tables_.contexts[marked.context].dirty.push_back(tables_.sessions, conn);
  }
  /// Nothing more is told of the session.
  void remove(uint32_t conn) {
    const session::Session& removed = tables_.sessions[conn];
    if (!removed.dirty_link.is_linked()) return;
    if (removed.waits_for_port) return end_wait(conn);
    tables_.contexts[removed.context].dirty.remove(tables_.sessions, conn);
  }
  /// The head of the port's queue of held sessions; kNone if the queue is empty. mark() ends the
  /// wait of a session.
  uint32_t first_held_by(uint8_t port) const { return held_.first_of(port); }

  /// Writes what the rings have room for, for kAnnouncedPerPollMax sessions at most, and wakes the
  /// clients that sleep. Returns how many sessions have no pending events left, and of how many
  /// failed opens it told.
  template <NotifierHost Host>
  size_t announce_all(Host& host, Nanos now);
  /// After announce_all(): some events wait for room in a ring, for slots, or for the next turn.
  bool has_untold() const { return has_untold_; }

  /// The answer to a kConnect or kListen. REQUIRES: the ring has room.
  void answer_open(Context& context, channel::Event event, channel::EndStatus status,
                   uint64_t cookie, channel::SessionName name, const FourTuple& tuple);
  /// The answer to an open that no session stands for. Where the ring has no room, announce_all()
  /// tells it later. False: kFailedOpensPerContextMax of the client's wait for room already.
  bool try_fail_open(Context& context, const FailedOpen& failed);
  /// announce_all() tells it. False: the same.
  bool try_keep_failed_open(Context& context, const FailedOpen& failed);
  /// Calls visit(FailedOpen) for those of the client that wait for room, in their order.
  template <typename Visit>
  void for_each_failed_open(const Context& context, Visit visit) const {
    for (uint32_t i = context.failed_opens.front(); i != Slab<FailedOpen>::kNone;
         i = context.failed_opens.next(failed_opens_, i)) {
      visit(failed_opens_[i]);
    }
  }
  /// The client reads its ring no more.
  void forget_failed_opens(Context& context);
  /// Failed opens of all clients that wait for room.
  uint32_t failed_open_count() const { return failed_opens_.used(); }
  /// Publishes what the rings have got, and wakes the clients that sleep. announce_all() does so.
  void ring_doorbells();

 private:
  channel::SessionName name_of(uint32_t conn) const {
    return {.index = conn, .generation = tables_.sessions[conn].generation};
  }
  void push(Context& context, const channel::Completion& entry) {
    context.completions.push(entry);
    tables_.stats.completions.add(1);
  }
  void announce_sends(Context& context, uint32_t conn, const tcp::SendSide& side, Nanos now);
  size_t announce_failed_opens(Context& context, uint32_t& left);
  void tell_failed_open(Context& context, const FailedOpen& failed) {
    answer_open(context, channel::Event::kConnectFailed, failed.status, failed.cookie, {},
                failed.tuple);
  }
  void drop_failed_open(Context& context);
  void end_wait(uint32_t conn);

  /// What announce() leaves.
  enum class Left : uint8_t {
    kNothing,
    kNeedsRoom,  ///< events wait for room in the ring, or for slots
    kNeedsPort,  ///< the only events left wait until the port freed packets
  };

  template <NotifierHost Host>
  size_t announce_to(Context& context, Host& host, Nanos now, uint32_t& sessions_left);
  template <NotifierHost Host>
  Left announce(Context& context, uint32_t conn, Host& host, Nanos now);
  template <NotifierHost Host>
  bool announce_payload(Context& context, uint32_t conn, Host& host);
  template <NotifierHost Host>
  void announce_open(Context& context, uint32_t conn, Host& host);
  template <NotifierHost Host>
  bool announce_data(Context& context, uint32_t conn, Host& host);
  template <NotifierHost Host>
  bool lend_some(uint32_t conn, channel::Completion& entry, Host& host);
  template <NotifierHost Host>
  bool copy_some(Context& context, uint32_t conn, channel::Completion& entry, Host& host);
  template <NotifierHost Host>
  void announce_end(Context& context, uint32_t conn, Host& host);

  Tables tables_;
  Pool pool_;
  HeldSessions held_;
  Slab<FailedOpen> failed_opens_;  ///< in the lists of their contexts
  ContextWalk walk_;
  bool has_untold_ = false;
};

template <NotifierHost Host>
size_t Notifier::announce_all(Host& host, Nanos now) {
  size_t told = 0;
  uint32_t sessions_left = kAnnouncedPerPollMax;
  has_untold_ = false;
  walk_.over(tables_.contexts.in_use(), [&](uint32_t index) {
    Context& context = tables_.contexts[index];
    if (context.state == Context::State::kAttached) {
      told += announce_to(context, host, now, sessions_left);
    }
    return sessions_left > 0;
  });
  has_untold_ |= sessions_left == 0;
  ring_doorbells();
  return told;
}

/// Takes the sessions that it visits, and the failed opens that it tells of, from `sessions_left`.
template <NotifierHost Host>
size_t Notifier::announce_to(Context& context, Host& host, Nanos now, uint32_t& sessions_left) {
  size_t told = announce_failed_opens(context, sessions_left);
  uint32_t untold_in_a_row = 0;
  // A session that must wait for room is put back, behind these, for the next turn.
  uint32_t count = context.dirty.size();
  for (; count > 0 && sessions_left > 0 && !context.dirty.empty(); --count, --sessions_left) {
    if (untold_in_a_row == kUntoldInARowMax) {  // the others are first in the next turn
      has_untold_ = true;
      break;
    }
    const uint32_t conn = context.dirty.front();
    context.dirty.remove(tables_.sessions, conn);
    const Left left = announce(context, conn, host, now);
    if (left == Left::kNeedsRoom) {
      if (context.completions.room() == 0) tables_.stats.completion_ring_full.add(1);
      mark(conn);
    } else if (left == Left::kNeedsPort) {
      held_.add(conn);
    }
    has_untold_ |= left == Left::kNeedsRoom;
    told += left == Left::kNothing;
    untold_in_a_row = left == Left::kNeedsRoom ? untold_in_a_row + 1 : 0;
  }
  if (context.completions.is_broken()) host.expel(context, "completion ring index out of range");
  return told;
}

/// Tells the session's client as much as can be told now. A port that may still read its memory
/// delays what gives it back: finished sends, and the end.
template <NotifierHost Host>
Notifier::Left Notifier::announce(Context& context, uint32_t conn, Host& host, Nanos now) {
  session::Session& told = tables_.sessions[conn];
  if (told.must_announce_open) {
    if (context.completions.room() == 0) return Left::kNeedsRoom;
    announce_open(context, conn, host);
  }
  const bool has_sends = told.must_announce_progress || told.has_unannounced_sends();
  const bool is_held = (has_sends || told.must_announce_end) && host.must_wait_for_port(conn);
  if (has_sends && !is_held) {
    if (context.completions.room() == 0) return Left::kNeedsRoom;
    announce_sends(context, conn, host.send_side(conn), now);
  }
  if (!announce_payload(context, conn, host)) return Left::kNeedsRoom;
  if (is_held) return Left::kNeedsPort;
  if (!told.must_announce_end) return Left::kNothing;
  if (context.completions.room() == 0) return Left::kNeedsRoom;
  announce_end(context, conn, host);
  return Left::kNothing;
}

/// Received bytes, and that there are no more. False: not all could be told now.
template <NotifierHost Host>
bool Notifier::announce_payload(Context& context, uint32_t conn, Host& host) {
  session::Session& told = tables_.sessions[conn];
  while (told.has_readable) {
    if (!announce_data(context, conn, host)) return false;
  }
  if (!told.must_announce_finish) return true;
  if (context.completions.room() == 0) return false;
  push(context, {.event = channel::Event::kPeerFinished, .session = name_of(conn)});
  told.must_announce_finish = false;
  return true;
}

template <NotifierHost Host>
void Notifier::announce_open(Context& context, uint32_t conn, Host& host) {
  session::Session& opened = tables_.sessions[conn];
  const auto event = opened.is_passive ? channel::Event::kAccepted : channel::Event::kConnected;
  answer_open(context, event, channel::EndStatus::kOk, opened.cookie, name_of(conn),
              host.tuple(conn));
  opened.must_announce_open = false;
  opened.was_announced = true;
  host.on_open_told(conn);
}

template <NotifierHost Host>
void Notifier::announce_end(Context& context, uint32_t conn, Host& host) {
  const session::Session& ended = tables_.sessions[conn];
  if (!ended.was_announced) {
    answer_open(context, channel::Event::kConnectFailed, ended.end_status, ended.cookie, {},
                host.tuple(conn));
  } else {
    push(context, {.event = channel::Event::kEnded,
                   .status = channel::general(ended.end_status),
                   .exact = ended.end_status,
                   .session = name_of(conn)});
  }
  host.on_end_told(conn);
}

/// Writes one completion with payload. False: no room in the ring, or nothing may be lent now.
template <NotifierHost Host>
bool Notifier::announce_data(Context& context, uint32_t conn, Host& host) {
  if (context.completions.room() == 0) return false;
  channel::Completion entry{.event = channel::Event::kData, .session = name_of(conn)};
  const uint32_t owner = tables_.sessions[conn].context;
  bool is_done = context.is_lent && host.may_lend(owner) && lend_some(conn, entry, host);
  if (!is_done && entry.count == 0) is_done = copy_some(context, conn, entry, host);
  // With all blocks in use, a session of which nothing is lent still gets something to read. More
  // stays unread: there, small segments are copied together.
  const bool has_nothing = context.is_lent && tables_.sessions[conn].lent_slots == 0;
  if (!is_done && entry.count == 0 && has_nothing) is_done = lend_some(conn, entry, host);
  if (entry.count > 0) push(context, entry);
  if (is_done) tables_.sessions[conn].has_readable = false;
  return is_done || entry.count > 0;
}

/// Fills `entry` with lent slots. True: the session has nothing more to read.
template <NotifierHost Host>
bool Notifier::lend_some(uint32_t conn, channel::Completion& entry, Host& host) {
  session::Session& reader = tables_.sessions[conn];
  entry.pool = pool_.index;
  while (entry.count < channel::kLentSlicesMax) {
    if (!tables_.loans.may_lend(reader.lent_slots)) return false;
    const std::optional<ReceivedBytes> received = host.take_received(conn);
    if (!received) return true;
    const auto length = static_cast<uint32_t>(received->bytes.size());
    entry.body.data[entry.count++] = {
        .slot = received->slot, .bytes = length, .offset = received->pool_offset};
    tables_.loans.lend(
        received->slot,
        {.context = reader.context, .session = conn, .generation = reader.generation});
    ++reader.lent_slots;
    tables_.stats.tcp_payload_in.add(length);
  }
  return false;
}

/// Fills `entry` with copies, for clients that may not map the pool, or have too much of it.
/// True: the session has nothing more to read.
template <NotifierHost Host>
bool Notifier::copy_some(Context& context, uint32_t conn, channel::Completion& entry, Host& host) {
  session::Session& reader = tables_.sessions[conn];
  if (!context.is_lent && !context.copy_blocks.may_give(reader.lent_slots)) return false;
  const std::optional<uint32_t> block = context.copy_blocks.find_free();
  if (!block) return false;
  const uint64_t offset = context.attached.copy_offset + uint64_t{*block} * kCopyBlockBytes;
  uint8_t* target = context.attached.memory + offset;
  uint32_t used = 0;
  uint32_t charge = 0;
  bool is_done = false;
  // A packet's bytes fit a block, also where its slot, which has more than them, does not.
  while (used == 0 || used + pool_.slot_bytes <= kCopyBlockBytes) {
    const std::optional<ReceivedBytes> received = host.take_received(conn);
    is_done = !received;
    if (is_done) break;
    LYRE_CHECK(used + received->bytes.size() <= kCopyBlockBytes);
    std::memcpy(target + used, received->bytes.data(), received->bytes.size());
    host.release_slot(conn, received->slot);
    used += static_cast<uint32_t>(received->bytes.size());
    charge += pool_.slot_bytes;
  }
  if (used == 0) return is_done;
  // Small segments fill a block with less than their slots had.
  const uint32_t excess = charge > kCopyBlockBytes ? charge - kCopyBlockBytes : 0;
  context.copy_blocks.give(
      *block, {.session = conn, .generation = reader.generation, .charge_bytes = charge - excess});
  if (!context.is_lent) ++reader.lent_slots;
  if (excess > 0) host.return_charge(conn, excess);
  entry.pool = channel::kPoolContext;
  entry.body.data[entry.count++] = {.slot = *block | kCopySlotBit, .bytes = used, .offset = offset};
  reader.copied_rx_bytes += used;
  tables_.stats.copied_rx_bytes.add(used);
  tables_.stats.tcp_payload_in.add(used);
  return is_done;
}

}  // namespace lyre::worker
