#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "stack/base/drop_reasons.h"
#include "stack/base/ip_address.h"
#include "stack/base/siphash.h"
#include "stack/channel/abi.h"
#include "stack/io/packet.h"
#include "stack/worker/flow_table.h"
#include "stack/worker/routing/inter_worker_rings.h"
#include "stack/worker/routing/owner_table.h"

namespace lyre::worker {

/// Packets that a worker may have sent to others and not got back.
inline constexpr uint32_t kPacketsAwayMax = 128;
/// Those of them that it may have sent to one other worker, where there are several. When that one
/// stands still, room is left for packets to the others. What a home sends on to an owner counts at
/// the home: a home cannot know whether the owner stands still or has a burst to take. So packets
/// of one owner that stands still can take all places, half of them by way of other homes.
inline constexpr uint32_t kPacketsAwayAtOneMax = kPacketsAwayMax / 2;

/// Connections that an open may end first: a half-open one, and one that makes room.
inline constexpr uint32_t kUnclaimsBeforeClaimMax = 2;

/// Claims that a worker keeps for each connection that it may have itself. Connections spread over
/// homes by hash, so one home may have somewhat more than its share.
inline constexpr uint32_t kClaimsPerConnection = 2;

/// Neighbour updates that lie in a ring before its reader is woken for them.
inline constexpr uint32_t kQuietUpdatesMax = 64;
/// A set of workers, by bit: all of them.
inline constexpr uint64_t kAllWorkers = UINT64_MAX;
static_assert(channel::kWorkersMax <= 64);

/// What ConnectionRouter::take_messages() calls.
template <typename Host>
concept RouterHost = requires(Host& host, const FourTuple& tuple, const WorkerMessage& message,
                              io::PacketBuf* packet, uint32_t conn, Drop reason) {
  /// The index of a connection that is here, or FlowTable::kNone.
  { host.find_connection(tuple) } -> std::same_as<uint32_t>;
  /// A packet of connection `conn`, which is here, lies in another worker's memory. The host uses
  /// it and answers with release_at_receiver() or migrate_to_receiver(), before it returns.
  host.on_redirected_packet(conn, message);
  /// No worker has the connection of a packet that was redirected from here. Owner: takes it.
  host.on_unclaimed_packet(packet);
  /// A packet that was redirected from here is not needed any more. Owner: takes it.
  host.on_returned_packet(packet);
  /// A connection moves here, with a packet that was redirected from here. Owner: takes it.
  host.on_migrated_connection(message);
  host.on_neighbour_update(message);
  /// Another worker has a connection that was claimed here with Claim::kOpen.
  host.on_claim_refused(tuple);
  host.drop(reason);
};

/// Finds the worker that has a connection. A NIC spreads packets by a hash that is not known; each
/// connection belongs to one worker, its owner. Each 4-tuple has a home, by a hash that is the same
/// at all workers; the home keeps the owner's claim. A packet whose connection is not here goes to
/// its home, from there to the owner, and back to this worker when the owner has copied it. Room in
/// rings is reserved so that answers about packets can always be posted: a worker has at most
/// kPacketsAwayMax packets away, claims leave that much room, and packets leave room for claims
/// too. A claim is made before anything is sent that the peer could answer. A home therefore looks
/// twice before it answers kNotFound: the claim may be in a ring that it read before it was posted.
/// Clients choose local ports at several workers. An open is therefore refused while another worker
/// has the 4-tuple; all other claims follow from a packet that found no owner, or from a move, and
/// the last one holds.
/// Thread: the worker.
class ConnectionRouter {
 public:
  struct Options {
    uint32_t index = 0;  ///< this worker
    uint32_t worker_count = 1;
    InterWorkerRings* rings = nullptr;  ///< *borrowed*; none where there is one worker only
    uint32_t claims_max = 1;            ///< connections whose home is here
    SipKey key;                         ///< the same at all workers
  };
  enum class Redirected : uint8_t {
    kNotClaimed,  ///< no other worker is known to have the connection; the packet is the caller's
    kAway,        ///< the packet went to another worker; it comes back by take_messages()
    kNoRoom,      ///< too many are away or there, or the ring is full; the packet is the caller's
  };

  explicit ConnectionRouter(const Options& options)
      : options_(options), owners_(options.claims_max, options.key) {
    if (is_alone()) return;
    unsaid_.reserve(options.claims_max);
    contested_.reserve(kWorkerMessagesMax);
  }

  bool is_alone() const { return options_.rings == nullptr; }
  uint32_t packets_away() const { return packets_away_; }

  /// Whether claim() would have room now. What is opened may take the place of other connections,
  /// so kUnclaimsBeforeClaimMax calls of unclaim() in between leave that room.
  bool can_claim(const FourTuple& tuple) const;
  enum class Claim : uint8_t {
    kHeld,
    kOpen,  ///< a client opens it: refused while another worker has it
  };
  /// This worker has the connection. False: the message to its home found no room.
  bool claim(const FourTuple& tuple, Claim kind = Claim::kHeld);
  /// Whether this worker itself knows all claims of the 4-tuple.
  bool knows_claims(const FourTuple& tuple) const { return is_alone() || is_home(tuple); }
  /// Another worker is known here to have the connection. Only its home knows that.
  bool is_claimed_elsewhere(const FourTuple& tuple) const {
    return !is_alone() && is_home(tuple) && owners_.find(tuple) != OwnerTable::kNone;
  }
  /// This worker does not have the connection any more. A message that finds no room is sent by
  /// later turns. When it is lost all the same, the home keeps an owner that answers kNotFound,
  /// until the next owner's claim.
  void unclaim(const FourTuple& tuple);

  /// A packet that this worker received, of a connection that is not here. `syn_acked`: it is a
  /// SYN-ACK, and acknowledges that.
  Redirected redirect(io::PacketBuf* packet, const FourTuple& tuple,
                      std::optional<SeqNum> syn_acked = std::nullopt);
  /// The packet of a kDeliver or kFindOwner message was copied or dropped.
  void release_at_receiver(const WorkerMessage& message) {
    answer(message, WorkerMessage::Kind::kRelease);
  }
  /// Where the packet of the message lies.
  io::PacketMemory& memory_of_receiver(const WorkerMessage& message) const {
    return options_.rings->memory_of(message.receiver);
  }
  /// The connection of the packet moves to the worker that received it.
  void migrate_to_receiver(const WorkerMessage& message, const WorkerMessage::Migration& moved);
  /// Sends what a neighbour said to those others of `workers`, a set. A worker that misses it asks
  /// by itself. Nobody is woken before a ring holds kQuietUpdatesMax: a turn reads the rings before
  /// it uses what neighbours said.
  void share_neighbour_update(const WorkerMessage::Body& update, uint64_t workers);
  /// end_turn() wakes the others of `workers` that sleep: they wait for an update.
  void wake_for_update(uint64_t workers);

  /// Takes what the rings hold, at most a ring's length of each. Returns the messages taken.
  template <RouterHost Host>
  size_t take_messages(Host& host);
  bool has_messages() const;
  /// Sends what found no room, and wakes the workers that were sent something since the last call.
  void end_turn();

 private:
  using Kind = WorkerMessage::Kind;
  /// A claim of a client's open, while another worker has the 4-tuple.
  struct ContestedClaim {
    FourTuple tuple;
    uint32_t claimer = 0;
    bool is_old = false;  ///< all rings were read after it arrived
  };

  uint32_t home_of(const FourTuple& tuple) const {
    return owners_.home_of(tuple, options_.worker_count);
  }
  bool is_home(const FourTuple& tuple) const { return home_of(tuple) == options_.index; }
  InterWorkerRings::Ring& ring_to(uint32_t worker) const {
    return options_.rings->ring(options_.index, worker);
  }
  InterWorkerRings::Ring& ring_from(uint32_t worker) const {
    return options_.rings->ring(worker, options_.index);
  }
  uint64_t others_of(uint64_t workers) const;
  bool try_put(uint32_t to, const WorkerMessage& message, uint32_t room_left);
  bool try_post(uint32_t to, const WorkerMessage& message, uint32_t room_left);
  bool try_forward(uint32_t owner, const WorkerMessage& message);
  void answer(const WorkerMessage& message, Kind kind);
  uint32_t packets_away_at_max() const {
    return options_.worker_count > 2 ? kPacketsAwayAtOneMax : kPacketsAwayMax;
  }
  void count_back(uint32_t from, const FourTuple& tuple);
  bool try_unclaim(const FourTuple& tuple);
  bool try_refuse(const FourTuple& tuple, uint32_t claimer);
  void wake_workers();

  template <RouterHost Host>
  void on_message(uint32_t from, const WorkerMessage& message, Host& host);
  template <RouterHost Host>
  bool is_held(const FourTuple& tuple, uint32_t claimer, Host& host) const;
  template <RouterHost Host>
  void take_claim(uint32_t claimer, const WorkerMessage& claim, Host& host);
  template <RouterHost Host>
  void keep_or_refuse(const ContestedClaim& claim, Host& host);
  template <RouterHost Host>
  size_t decide_contested(Host& host);
  void take_unclaim(const FourTuple& tuple, uint32_t claimer);
  void withdraw_contested(const FourTuple& tuple, uint32_t claimer);
  template <RouterHost Host>
  void find_owner(const WorkerMessage& message, Host& host);
  template <RouterHost Host>
  bool try_find_owner(const WorkerMessage& message, Host& host);
  template <RouterHost Host>
  void deliver(const WorkerMessage& message, Host& host);

  Options options_;
  OwnerTable owners_;
  uint32_t packets_away_ = 0;
  /// By worker: the home, or the owner if this worker is the home.
  std::array<uint32_t, channel::kWorkersMax> packets_away_at_{};
  std::vector<FourTuple> unsaid_;          ///< unclaimed, and their homes do not know; never grows
  std::vector<ContestedClaim> contested_;  ///< in order of arrival; never grows
  std::array<bool, channel::kWorkersMax> must_wake_{};  ///< by worker
};

template <RouterHost Host>
size_t ConnectionRouter::take_messages(Host& host) {
  if (is_alone()) return 0;
  size_t taken = 0;
  WorkerMessage message;
  // The ring to itself holds lookups that found no claim. Only those of an earlier call are
  // repeated, and only after all rings were read: claims made before their packets are known then.
  // Contested claims are decided in the same way, and before, so that the lookups find them.
  InterWorkerRings::Ring& repeated = ring_to(options_.index);
  const uint32_t repeated_count = kWorkerMessagesMax - repeated.room();
  for (ContestedClaim& claim : contested_) claim.is_old = true;
  for (uint32_t from = 0; from < options_.worker_count; ++from) {
    if (from == options_.index) continue;
    InterWorkerRings::Ring& ring = ring_from(from);
    for (size_t i = 0; i < kWorkerMessagesMax && ring.try_take(message); ++i, ++taken) {
      on_message(from, message, host);
    }
  }
  taken += decide_contested(host);
  for (uint32_t i = 0; i < repeated_count && repeated.try_take(message); ++i, ++taken) {
    if (!try_find_owner(message, host)) answer(message, Kind::kNotFound);
  }
  return taken;
}

template <RouterHost Host>
void ConnectionRouter::on_message(uint32_t from, const WorkerMessage& message, Host& host) {
  switch (message.kind) {
    case Kind::kNone:
      return;
    case Kind::kFindOwner:
      return find_owner(message, host);
    case Kind::kDeliver:
      return deliver(message, host);
    case Kind::kNotFound:
      count_back(from, message.tuple);
      return host.on_unclaimed_packet(message.packet);
    case Kind::kRelease:
      count_back(from, message.tuple);
      return host.on_returned_packet(message.packet);
    case Kind::kClaim:
      return take_claim(from, message, host);
    case Kind::kClaimRefused:
      return host.on_claim_refused(message.tuple);
    case Kind::kUnclaim:
      return take_unclaim(message.tuple, from);
    case Kind::kMigrate:
      count_back(from, message.tuple);
      return host.on_migrated_connection(message);
    case Kind::kNeighbourUpdate:
      return host.on_neighbour_update(message);
  }
}

/// Whether another worker than `claimer` has the connection, as far as the home knows.
template <RouterHost Host>
bool ConnectionRouter::is_held(const FourTuple& tuple, uint32_t claimer, Host& host) const {
  const uint32_t owner = owners_.find(tuple);
  return host.find_connection(tuple) != FlowTable::kNone ||
         (owner != OwnerTable::kNone && owner != claimer);
}

/// The end of the connection that has the 4-tuple may be in a ring that is read later. So a claim
/// is refused only when it was looked at twice.
template <RouterHost Host>
void ConnectionRouter::take_claim(uint32_t claimer, const WorkerMessage& claim, Host& host) {
  if (!claim.may_be_refused) {
    if (!owners_.claim(claim.tuple, claimer)) host.drop(Drop::kRedirectFull);
    return;
  }
  const ContestedClaim open = {.tuple = claim.tuple, .claimer = claimer};
  const bool is_contested = is_held(claim.tuple, claimer, host);
  if (!is_contested || contested_.size() == contested_.capacity()) {
    return keep_or_refuse(open, host);
  }
  // The one before may have ended by an unclaim that found no room and was taken back.
  withdraw_contested(claim.tuple, claimer);
  contested_.push_back(open);
}

template <RouterHost Host>
void ConnectionRouter::keep_or_refuse(const ContestedClaim& claim, Host& host) {
  const bool is_done = is_held(claim.tuple, claim.claimer, host)
                           ? try_refuse(claim.tuple, claim.claimer)
                           : owners_.claim(claim.tuple, claim.claimer);
  if (!is_done) host.drop(Drop::kRedirectFull);
}

/// Returns how many were decided.
template <RouterHost Host>
size_t ConnectionRouter::decide_contested(Host& host) {
  return std::erase_if(contested_, [&](const ContestedClaim& claim) {
    if (claim.is_old) keep_or_refuse(claim, host);
    return claim.is_old;
  });
}

template <RouterHost Host>
void ConnectionRouter::find_owner(const WorkerMessage& message, Host& host) {
  if (try_find_owner(message, host)) return;
  if (try_post(options_.index, message, 0)) return;  // looked up again by the next call
  host.drop(Drop::kRedirectFull);
  release_at_receiver(message);
}

/// False: no claim is known here. Otherwise the packet was delivered, sent on, or dropped.
template <RouterHost Host>
bool ConnectionRouter::try_find_owner(const WorkerMessage& message, Host& host) {
  const uint32_t conn = host.find_connection(message.tuple);
  if (conn != FlowTable::kNone) {
    host.on_redirected_packet(conn, message);
    return true;
  }
  const uint32_t owner = owners_.find(message.tuple);
  if (owner == OwnerTable::kNone || owner == message.receiver) return false;
  if (!try_forward(owner, message)) {
    host.drop(Drop::kRedirectFull);
    release_at_receiver(message);
  }
  return true;
}

template <RouterHost Host>
void ConnectionRouter::deliver(const WorkerMessage& message, Host& host) {
  const uint32_t conn = host.find_connection(message.tuple);
  if (conn != FlowTable::kNone) return host.on_redirected_packet(conn, message);
  unclaim(message.tuple);  // the home did not learn that the connection ended
  answer(message, Kind::kNotFound);
}

}  // namespace lyre::worker
