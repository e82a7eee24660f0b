#include "stack/worker/routing/connection_router.h"

#include <bit>
#include <utility>

#include "stack/base/check.h"

namespace lyre::worker {

namespace {

/// Room that a message leaves in a ring. Answers about packets may take the last place.
constexpr uint32_t kRoomAfterClaim = kPacketsAwayMax;
constexpr uint32_t kRoomAfterPacket = kPacketsAwayMax + 128;
static_assert(kRoomAfterPacket < kWorkerMessagesMax);
static_assert(kRoomAfterClaim + kUnclaimsBeforeClaimMax < kRoomAfterPacket);

}  // namespace

/// Wakes nobody. False: the ring has at most `room_left` free places.
bool ConnectionRouter::try_put(uint32_t to, const WorkerMessage& message, uint32_t room_left) {
  InterWorkerRings::Ring& ring = ring_to(to);
  if (ring.room() <= room_left) return false;
  LYRE_CHECK(ring.try_post(message));  // this worker alone fills the ring
  return true;
}

bool ConnectionRouter::try_post(uint32_t to, const WorkerMessage& message, uint32_t room_left) {
  if (!try_put(to, message, room_left)) return false;
  must_wake_[to] = true;
  return true;
}

/// Sends a packet's message on to the owner of its connection.
bool ConnectionRouter::try_forward(uint32_t owner, const WorkerMessage& message) {
  WorkerMessage onward = message;
  onward.kind = Kind::kDeliver;
  return try_post(owner, onward, kRoomAfterPacket);
}

/// REQUIRES: the message's packet is away from its receiver. Its ring has room, because all other
/// messages leave kPacketsAwayMax places free, which is the most packets away from one receiver.
void ConnectionRouter::answer(const WorkerMessage& message, Kind kind) {
  WorkerMessage back = message;
  back.kind = kind;
  LYRE_CHECK(try_post(message.receiver, back, 0));
}

void ConnectionRouter::migrate_to_receiver(const WorkerMessage& message,
                                           const WorkerMessage::Migration& moved) {
  WorkerMessage back = message;
  back.body = moved;
  answer(back, Kind::kMigrate);
}

ConnectionRouter::Redirected ConnectionRouter::redirect(io::PacketBuf* packet,
                                                        const FourTuple& tuple,
                                                        std::optional<SeqNum> syn_acked) {
  if (is_alone()) return Redirected::kNotClaimed;
  WorkerMessage message{.kind = Kind::kFindOwner,
                        .receiver = static_cast<uint8_t>(options_.index),
                        .packet = packet,
                        .syn_acked = syn_acked,
                        .tuple = tuple};
  uint32_t to = home_of(tuple);
  if (to == options_.index) {
    to = owners_.find(tuple);
    if (to == OwnerTable::kNone) return Redirected::kNotClaimed;
    message.kind = Kind::kDeliver;
  }
  if (packets_away_ == kPacketsAwayMax || packets_away_at_[to] == packets_away_at_max() ||
      !try_post(to, message, kRoomAfterPacket)) {
    return Redirected::kNoRoom;
  }
  ++packets_away_;
  ++packets_away_at_[to];
  return Redirected::kAway;
}

/// A packet came back from worker `from`. A home may have sent it on: the one that it went to first
/// counts.
void ConnectionRouter::count_back(uint32_t from, const FourTuple& tuple) {
  --packets_away_;
  --packets_away_at_[is_home(tuple) ? from : home_of(tuple)];
}

bool ConnectionRouter::can_claim(const FourTuple& tuple) const {
  return knows_claims(tuple) ||
         ring_to(home_of(tuple)).room() > kRoomAfterClaim + kUnclaimsBeforeClaimMax;
}

bool ConnectionRouter::claim(const FourTuple& tuple, Claim kind) {
  if (knows_claims(tuple)) return true;
  std::erase(unsaid_, tuple);  // it would withdraw this claim
  const WorkerMessage message{
      .kind = Kind::kClaim, .may_be_refused = kind == Claim::kOpen, .tuple = tuple};
  return try_post(home_of(tuple), message, kRoomAfterClaim);
}

/// False: no room. The claim does not hold all the same: packets go to the worker that has the
/// connection.
bool ConnectionRouter::try_refuse(const FourTuple& tuple, uint32_t claimer) {
  return try_post(claimer, {.kind = Kind::kClaimRefused, .tuple = tuple}, kRoomAfterClaim);
}

/// A claim that is not decided yet is withdrawn, too: it would stay in the table for ever.
void ConnectionRouter::take_unclaim(const FourTuple& tuple, uint32_t claimer) {
  withdraw_contested(tuple, claimer);
  owners_.unclaim(tuple, claimer);
}

void ConnectionRouter::withdraw_contested(const FourTuple& tuple, uint32_t claimer) {
  std::erase_if(contested_, [&](const ContestedClaim& claim) {
    return claim.claimer == claimer && claim.tuple == tuple;
  });
}

void ConnectionRouter::unclaim(const FourTuple& tuple) {
  if (knows_claims(tuple) || try_unclaim(tuple)) return;
  if (unsaid_.size() < unsaid_.capacity()) unsaid_.push_back(tuple);
}

bool ConnectionRouter::try_unclaim(const FourTuple& tuple) {
  return try_post(home_of(tuple), {.kind = Kind::kUnclaim, .tuple = tuple}, kRoomAfterClaim);
}

void ConnectionRouter::end_turn() {
  while (!unsaid_.empty() && try_unclaim(unsaid_.back())) unsaid_.pop_back();
  wake_workers();
}

uint64_t ConnectionRouter::others_of(uint64_t workers) const {
  if (is_alone()) return 0;
  return workers & kAllWorkers >> (64 - options_.worker_count) & ~(uint64_t{1} << options_.index);
}

void ConnectionRouter::share_neighbour_update(const WorkerMessage::Body& update, uint64_t workers) {
  for (uint64_t left = others_of(workers); left != 0; left &= left - 1) {
    const auto to = static_cast<uint32_t>(std::countr_zero(left));
    try_put(to, {.kind = Kind::kNeighbourUpdate, .body = update}, kRoomAfterPacket);
    const uint32_t waiting = kWorkerMessagesMax - ring_to(to).room();
    if (waiting >= kQuietUpdatesMax) must_wake_[to] = true;
  }
}

void ConnectionRouter::wake_for_update(uint64_t workers) {
  for (uint64_t left = others_of(workers); left != 0; left &= left - 1) {
    must_wake_[static_cast<uint32_t>(std::countr_zero(left))] = true;
  }
}

bool ConnectionRouter::has_messages() const {
  if (!contested_.empty()) return true;
  if (is_alone()) return false;
  for (uint32_t from = 0; from < options_.worker_count; ++from) {
    if (!ring_from(from).is_empty()) return true;
  }
  return false;
}

void ConnectionRouter::wake_workers() {
  if (is_alone()) return;
  for (uint32_t worker = 0; worker < options_.worker_count; ++worker) {
    if (std::exchange(must_wake_[worker], false)) options_.rings->wake(worker);
  }
}

}  // namespace lyre::worker
