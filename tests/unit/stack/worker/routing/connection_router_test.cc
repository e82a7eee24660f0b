#include "stack/worker/routing/connection_router.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <vector>

// Routers of several workers over real rings. Their hosts know connections by 4-tuple and index,
// and note what they are told.
namespace lyre::worker {
namespace {

using Kind = WorkerMessage::Kind;
using Redirected = ConnectionRouter::Redirected;

constexpr uint32_t kWorkers = 3;
constexpr SipKey kKey{3, 4};

FourTuple tuple_of(uint32_t number) {
  return {{IpAddress::v4(0x0a090001), 5000},
          {IpAddress::v4(0x0a090002), static_cast<uint16_t>(number)}};
}

/// A worker, as far as its router sees one.
struct Host {
  Host(InterWorkerRings* rings, uint32_t index, uint32_t claims_max)
      : router({.index = index,
                .worker_count = rings != nullptr ? kWorkers : 1,
                .rings = rings,
                .claims_max = claims_max,
                .key = kKey}) {}

  uint32_t find_connection(const FourTuple& tuple) {
    const auto found = std::find(connections.begin(), connections.end(), tuple);
    return found == connections.end() ? FlowTable::kNone
                                      : static_cast<uint32_t>(found - connections.begin());
  }
  void on_redirected_packet(uint32_t conn, const WorkerMessage& message) {
    EXPECT_EQ(connections[conn], message.tuple);
    redirected.push_back(message.packet);
    if (migrates) return router.migrate_to_receiver(message, {.context = 7, .cookie = 9});
    router.release_at_receiver(message);
  }
  void on_unclaimed_packet(io::PacketBuf* packet) { unclaimed.push_back(packet); }
  void on_returned_packet(io::PacketBuf* packet) { returned.push_back(packet); }
  void on_migrated_connection(const WorkerMessage& message) { migrated.push_back(message); }
  void on_neighbour_update(const WorkerMessage& message) { updates.push_back(message); }
  void on_claim_refused(const FourTuple& tuple) { refused.push_back(tuple); }
  void drop(Drop reason) { drops.push_back(reason); }

  void open(const FourTuple& tuple) {
    EXPECT_TRUE(router.claim(tuple));
    connections.push_back(tuple);
  }

  ConnectionRouter router;
  bool migrates = false;
  std::vector<FourTuple> connections, refused;
  std::vector<io::PacketBuf*> redirected, unclaimed, returned;
  std::vector<WorkerMessage> migrated, updates;
  std::vector<Drop> drops;
};

class ConnectionRouterTest : public testing::Test {
 protected:
  ConnectionRouterTest() {
    for (uint32_t i = 0; i < kWorkers; ++i) hosts.emplace_back(&rings, i, kClaimsMax);
  }

  void turn() {
    for (Host& host : hosts) host.router.take_messages(host);
  }
  void settle() {
    while (std::any_of(hosts.begin(), hosts.end(),
                       [](const Host& host) { return host.router.has_messages(); })) {
      turn();
    }
  }
  /// A connection whose home is `home`; a new one at each call.
  FourTuple tuple_at_home(uint32_t home) {
    const OwnerTable homes(1, kKey);
    while (homes.home_of(tuple_of(++last_tuple_), kWorkers) != home) {
    }
    return tuple_of(last_tuple_);
  }
  /// Messages in the ring that `to` has not taken yet.
  uint32_t waiting(uint32_t from, uint32_t to) {
    return kWorkerMessagesMax - rings.ring(from, to).room();
  }

  static constexpr uint32_t kClaimsMax = 1024;
  InterWorkerRings rings{kWorkers};
  std::deque<Host> hosts;
  io::PacketBuf packet;
  uint32_t last_tuple_ = 0;
};

TEST(ConnectionRouter, AWorkerAloneKeepsItsPackets) {
  Host alone(nullptr, 0, 1);
  io::PacketBuf packet;
  EXPECT_TRUE(alone.router.can_claim(tuple_of(1)));
  EXPECT_TRUE(alone.router.claim(tuple_of(1)));
  EXPECT_EQ(alone.router.redirect(&packet, tuple_of(2)), Redirected::kNotClaimed);
  EXPECT_EQ(alone.router.take_messages(alone), 0u);
  EXPECT_FALSE(alone.router.has_messages());
  alone.router.unclaim(tuple_of(1));
  alone.router.end_turn();
}

TEST_F(ConnectionRouterTest, APacketReachesItsOwnerWhereverItArrives) {
  for (uint32_t home = 0; home < kWorkers; ++home) {
    for (uint32_t owner = 0; owner < kWorkers; ++owner) {
      const FourTuple tuple = tuple_at_home(home);
      hosts[owner].open(tuple);
      settle();
      const uint32_t receiver = (owner + 1) % kWorkers;
      ASSERT_EQ(hosts[receiver].router.redirect(&packet, tuple), Redirected::kAway);
      EXPECT_EQ(hosts[receiver].router.packets_away(), 1u);
      settle();
      ASSERT_EQ(hosts[owner].redirected.size(), 1u) << home << " " << owner;
      ASSERT_EQ(hosts[receiver].returned.size(), 1u);
      EXPECT_EQ(hosts[receiver].returned[0], &packet);
      EXPECT_EQ(hosts[receiver].router.packets_away(), 0u);
      hosts[owner].redirected.clear();
      hosts[receiver].returned.clear();
    }
  }
}

TEST_F(ConnectionRouterTest, APacketThatNobodyClaimedComesBackAfterTwoLookups) {
  const FourTuple tuple = tuple_at_home(0);
  ASSERT_EQ(hosts[1].router.redirect(&packet, tuple), Redirected::kAway);
  hosts[0].router.take_messages(hosts[0]);
  hosts[1].router.take_messages(hosts[1]);
  EXPECT_TRUE(hosts[1].unclaimed.empty()) << "one lookup is not enough";
  EXPECT_TRUE(hosts[0].router.has_messages()) << "the home must not sleep";
  hosts[0].router.take_messages(hosts[0]);
  hosts[1].router.take_messages(hosts[1]);
  ASSERT_EQ(hosts[1].unclaimed.size(), 1u);
  EXPECT_EQ(hosts[1].unclaimed[0], &packet);
  EXPECT_EQ(hosts[1].router.packets_away(), 0u);
}

TEST_F(ConnectionRouterTest, TheHomeItselfSaysAtOnceThatNobodyClaimed) {
  EXPECT_EQ(hosts[0].router.redirect(&packet, tuple_at_home(0)), Redirected::kNotClaimed);
  EXPECT_EQ(hosts[0].router.packets_away(), 0u);
}

// The ring of worker 1 is read first, so the home finds the packet before the claim.
TEST_F(ConnectionRouterTest, AClaimInARingThatIsReadLaterCounts) {
  const FourTuple tuple = tuple_at_home(0);
  hosts[2].open(tuple);
  ASSERT_EQ(hosts[1].router.redirect(&packet, tuple), Redirected::kAway);
  settle();
  EXPECT_EQ(hosts[2].redirected.size(), 1u);
  EXPECT_EQ(hosts[1].returned.size(), 1u);
}

TEST_F(ConnectionRouterTest, AnOwnerWithoutTheConnectionWithdrawsItsClaim) {
  const FourTuple tuple = tuple_at_home(0);
  hosts[2].open(tuple);
  settle();
  hosts[2].connections.clear();  // the message that says so was lost
  ASSERT_EQ(hosts[1].router.redirect(&packet, tuple), Redirected::kAway);
  settle();
  EXPECT_EQ(hosts[1].unclaimed.size(), 1u);
  EXPECT_EQ(hosts[0].router.redirect(&packet, tuple), Redirected::kNotClaimed)
      << "the home has forgotten it";
}

TEST_F(ConnectionRouterTest, AnUnclaimedConnectionIsForgottenAndALaterClaimStays) {
  const FourTuple tuple = tuple_at_home(0);
  hosts[2].open(tuple);
  settle();
  hosts[1].open(tuple);
  settle();
  hosts[2].router.unclaim(tuple);
  settle();
  EXPECT_EQ(hosts[0].router.redirect(&packet, tuple), Redirected::kAway) << "worker 1 has it";
  settle();
  EXPECT_EQ(hosts[1].redirected.size(), 1u);
  hosts[1].router.unclaim(tuple);
  settle();
  EXPECT_EQ(hosts[0].router.redirect(&packet, tuple), Redirected::kNotClaimed);
}

TEST_F(ConnectionRouterTest, AnOpenOfAConnectionThatAnotherWorkerHasIsRefused) {
  for (const uint32_t owner : {0u, 2u}) {  // the home, and another one
    const FourTuple tuple = tuple_at_home(0);
    hosts[owner].open(tuple);
    settle();
    ASSERT_TRUE(hosts[1].router.claim(tuple, ConnectionRouter::Claim::kOpen));
    settle();
    EXPECT_EQ(hosts[1].refused, std::vector<FourTuple>{tuple});
    hosts[1].refused.clear();
    hosts[1].router.unclaim(tuple);
    settle();
    EXPECT_EQ(hosts[0].router.is_claimed_elsewhere(tuple), owner != 0);
    ASSERT_EQ(hosts[1].router.redirect(&packet, tuple), Redirected::kAway);
    settle();
    EXPECT_EQ(hosts[owner].redirected.size(), 1u);
  }
}

// The ring of worker 1 is read first.
TEST_F(ConnectionRouterTest, TheEndOfTheEarlierOneInARingThatIsReadLaterCounts) {
  const FourTuple tuple = tuple_at_home(0);
  hosts[2].open(tuple);
  settle();
  hosts[2].connections.clear();
  hosts[2].router.unclaim(tuple);
  ASSERT_TRUE(hosts[1].router.claim(tuple, ConnectionRouter::Claim::kOpen));
  settle();
  EXPECT_TRUE(hosts[1].refused.empty());
  EXPECT_TRUE(hosts[0].router.is_claimed_elsewhere(tuple));
}

// The ring of worker 1 is read first: the home does not know yet that both have ended.
TEST_F(ConnectionRouterTest, AContestedClaimEndsWithItsUnclaim) {
  const FourTuple tuple = tuple_at_home(0);
  hosts[2].open(tuple);
  settle();
  ASSERT_TRUE(hosts[1].router.claim(tuple, ConnectionRouter::Claim::kOpen));
  hosts[1].router.unclaim(tuple);
  hosts[2].connections.clear();
  hosts[2].router.unclaim(tuple);
  settle();
  EXPECT_TRUE(hosts[1].refused.empty());
  EXPECT_FALSE(hosts[0].router.is_claimed_elsewhere(tuple)) << "nobody has it";
}

// So that worker 0 may sleep only when it has decided.
TEST_F(ConnectionRouterTest, AContestedClaimIsWaitingWork) {
  const FourTuple tuple = tuple_at_home(0);
  hosts[2].open(tuple);
  settle();
  ASSERT_TRUE(hosts[1].router.claim(tuple, ConnectionRouter::Claim::kOpen));
  hosts[0].router.take_messages(hosts[0]);
  EXPECT_TRUE(hosts[0].router.has_messages());
  EXPECT_EQ(hosts[0].router.take_messages(hosts[0]), 1u);
  EXPECT_FALSE(hosts[0].router.has_messages());
  hosts[1].router.take_messages(hosts[1]);
  EXPECT_EQ(hosts[1].refused, std::vector<FourTuple>{tuple});
}

// A claim is known to its home only.
TEST_F(ConnectionRouterTest, TheHomeKnowsAllClaimsOfAConnection) {
  const FourTuple tuple = tuple_at_home(0);
  EXPECT_TRUE(hosts[0].router.knows_claims(tuple));
  EXPECT_FALSE(hosts[1].router.knows_claims(tuple));
  EXPECT_TRUE(Host(nullptr, 0, 1).router.knows_claims(tuple));
}

// A client that ends thousands of sessions at once fills the rings. What was lost stayed in the
// home's table, which became full in time.
TEST_F(ConnectionRouterTest, WhatFindsNoRoomIsUnclaimedLater) {
  std::vector<FourTuple> tuples;
  for (uint32_t i = 0; i < kClaimsMax; ++i) {
    tuples.push_back(tuple_at_home(0));
    hosts[1].open(tuples.back());
    turn();
  }
  hosts[1].connections.clear();
  for (const FourTuple& tuple : tuples) hosts[1].router.unclaim(tuple);
  hosts[0].router.take_messages(hosts[0]);
  hosts[1].open(tuples.back());  // again, before the home was told that it had ended
  for (int i = 0; i < 10; ++i) {
    turn();
    hosts[1].router.end_turn();
  }
  settle();
  for (size_t i = 0; i + 1 < tuples.size(); ++i) {
    ASSERT_EQ(hosts[0].router.redirect(&packet, tuples[i]), Redirected::kNotClaimed) << i;
  }
  EXPECT_EQ(hosts[0].router.redirect(&packet, tuples.back()), Redirected::kAway);
}

TEST_F(ConnectionRouterTest, AConnectionMovesWithThePacket) {
  const FourTuple tuple = tuple_at_home(0);
  hosts[2].open(tuple);
  hosts[2].migrates = true;
  settle();
  ASSERT_EQ(hosts[1].router.redirect(&packet, tuple), Redirected::kAway);
  settle();
  ASSERT_EQ(hosts[1].migrated.size(), 1u);
  const WorkerMessage& message = hosts[1].migrated[0];
  EXPECT_EQ(message.packet, &packet);
  EXPECT_EQ(message.tuple, tuple);
  const auto* moved = std::get_if<WorkerMessage::Migration>(&message.body);
  ASSERT_NE(moved, nullptr);
  EXPECT_EQ(moved->context, 7u);
  EXPECT_EQ(moved->cookie, 9u);
  EXPECT_EQ(hosts[1].router.packets_away(), 0u);
}

TEST_F(ConnectionRouterTest, AWorkerHasSoManyPacketsAwayAtMost) {
  const FourTuple tuples[] = {tuple_at_home(0), tuple_at_home(2)};
  for (uint32_t i = 0; i < kPacketsAwayMax; ++i) {
    ASSERT_EQ(hosts[1].router.redirect(&packet, tuples[i % 2]), Redirected::kAway) << i;
  }
  EXPECT_EQ(hosts[1].router.redirect(&packet, tuples[0]), Redirected::kNoRoom);
  settle();
  EXPECT_EQ(hosts[1].unclaimed.size(), kPacketsAwayMax);
  EXPECT_EQ(hosts[1].router.redirect(&packet, tuples[0]), Redirected::kAway);
}

// Strangers could fill all places with packets to a home that did not run.
TEST_F(ConnectionRouterTest, AWorkerThatStandsStillLeavesRoomForPacketsToOthers) {
  const FourTuple tuple = tuple_at_home(2);
  hosts[0].open(tuple);
  settle();
  while (hosts[1].router.redirect(&packet, tuple_at_home(0)) == Redirected::kAway) {
  }
  EXPECT_EQ(hosts[1].router.packets_away(), kPacketsAwayAtOneMax);
  EXPECT_EQ(hosts[1].router.redirect(&packet, tuple_at_home(2)), Redirected::kAway);
  // A packet that its home sent on counts at the home.
  EXPECT_EQ(hosts[1].router.redirect(&packet, tuple), Redirected::kAway);
  settle();
  EXPECT_EQ(hosts[1].router.packets_away(), 0u);
  for (const uint32_t home : {0u, 2u}) {
    for (uint32_t i = 0; i < kPacketsAwayAtOneMax; ++i) {
      ASSERT_EQ(hosts[1].router.redirect(&packet, tuple_at_home(home)), Redirected::kAway) << i;
    }
  }
}

TEST_F(ConnectionRouterTest, TheHomeCountsWhatItSentToAnOwner) {
  const FourTuple tuple = tuple_at_home(0);
  hosts[2].open(tuple);
  settle();
  for (int round = 0; round < 2; ++round) {
    for (uint32_t i = 0; i < kPacketsAwayAtOneMax; ++i) {
      ASSERT_EQ(hosts[0].router.redirect(&packet, tuple), Redirected::kAway) << i;
    }
    EXPECT_EQ(hosts[0].router.redirect(&packet, tuple), Redirected::kNoRoom);
    settle();
  }
}

// Whatever else is sent to a worker, answers about its packets find room.
TEST_F(ConnectionRouterTest, AnswersHaveRoomInAFullRing) {
  const FourTuple nobodys = tuple_at_home(0);
  const FourTuple owned = tuple_at_home(2);
  hosts[0].open(owned);
  settle();
  for (uint32_t i = 0; i < kPacketsAwayMax; ++i) {
    const FourTuple& tuple = i % 2 == 0 ? nobodys : owned;
    ASSERT_EQ(hosts[1].router.redirect(&packet, tuple), Redirected::kAway);
  }
  hosts[2].router.take_messages(hosts[2]);  // worker 0 answers about all of them
  for (uint32_t i = 0; i < kWorkerMessagesMax; ++i) {
    hosts[0].router.share_neighbour_update(WorkerMessage::ArpUpdate{}, kAllWorkers);
  }
  EXPECT_EQ(hosts[0].router.redirect(&packet, tuple_at_home(1)), Redirected::kNoRoom);
  const uint32_t with_updates = waiting(0, 1);
  ASSERT_TRUE(hosts[0].router.can_claim(tuple_at_home(1)));
  uint32_t claims = 0;
  while (hosts[0].router.claim(tuple_at_home(1))) ++claims;
  EXPECT_GT(claims, 0u) << "updates and packets leave room for claims";
  EXPECT_FALSE(hosts[0].router.can_claim(tuple_at_home(1)));
  EXPECT_EQ(waiting(0, 1), with_updates + claims);
  for (int i = 0; i < 2; ++i) hosts[0].router.take_messages(hosts[0]);
  EXPECT_EQ(waiting(0, 1), kWorkerMessagesMax);
  hosts[1].router.take_messages(hosts[1]);
  EXPECT_EQ(hosts[1].unclaimed.size() + hosts[1].returned.size(), kPacketsAwayMax);
}

// Their unclaims took the place of the claim, which is not repeated: no packet was delivered.
TEST_F(ConnectionRouterTest, AClaimHasRoomAfterConnectionsThatEndForIt) {
  while (hosts[1].router.can_claim(tuple_at_home(0))) {
    ASSERT_TRUE(hosts[1].router.claim(tuple_of(last_tuple_)));
  }
  WorkerMessage message;
  ASSERT_TRUE(rings.ring(1, 0).try_take(message));
  ASSERT_TRUE(hosts[1].router.can_claim(tuple_at_home(0)));
  for (uint32_t i = 0; i < kUnclaimsBeforeClaimMax; ++i) {
    hosts[1].router.unclaim(tuple_at_home(0));
  }
  EXPECT_TRUE(hosts[1].router.claim(tuple_at_home(0)));
}

TEST_F(ConnectionRouterTest, AClaimThatTheHomeCannotKeepIsCounted) {
  Host& home = hosts[0];
  for (uint32_t i = 0; i <= kClaimsMax; ++i) {
    ASSERT_TRUE(hosts[1].router.claim(tuple_at_home(0)));
    home.router.take_messages(home);
  }
  ASSERT_EQ(home.drops.size(), 1u);
  EXPECT_EQ(home.drops[0], Drop::kRedirectFull);
}

TEST_F(ConnectionRouterTest, NeighbourUpdatesReachEverybodyElse) {
  hosts[1].router.share_neighbour_update(WorkerMessage::ArpUpdate{.port = 3}, kAllWorkers);
  settle();
  EXPECT_TRUE(hosts[1].updates.empty());
  for (const uint32_t other : {0u, 2u}) {
    ASSERT_EQ(hosts[other].updates.size(), 1u);
    const auto* update = std::get_if<WorkerMessage::ArpUpdate>(&hosts[other].updates[0].body);
    ASSERT_NE(update, nullptr);
    EXPECT_EQ(update->port, 3);
  }
}

TEST_F(ConnectionRouterTest, ANeighbourUpdateReachesOnlyThoseWhomItConcerns) {
  hosts[1].router.share_neighbour_update(WorkerMessage::ArpUpdate{}, uint64_t{1} << 2);
  settle();
  EXPECT_TRUE(hosts[0].updates.empty());
  EXPECT_EQ(hosts[2].updates.size(), 1u);
}

TEST(ConnectionRouter, SetsOfWorkersHoldAsManyAsThereCanBe) {
  constexpr uint32_t kCount = channel::kWorkersMax;
  constexpr uint32_t kLast = kCount - 1;
  InterWorkerRings rings(kCount);
  const auto router_of = [&](uint32_t index) {
    return ConnectionRouter({.index = index, .worker_count = kCount, .rings = &rings, .key = kKey});
  };
  ConnectionRouter last = router_of(kLast);
  last.share_neighbour_update(WorkerMessage::ArpUpdate{}, kAllWorkers);
  for (uint32_t to = 0; to < kCount; ++to) {
    EXPECT_EQ(rings.ring(kLast, to).is_empty(), to == kLast) << to;
  }
  ConnectionRouter first = router_of(0);
  first.share_neighbour_update(WorkerMessage::ArpUpdate{}, uint64_t{1} << kLast);
  EXPECT_FALSE(rings.ring(0, kLast).is_empty());
}

TEST_F(ConnectionRouterTest, OnlySleepersThatWaitAreWoken) {
  const std::atomic<uint32_t> sleeps{1};
  const std::atomic<uint32_t> runs{0};
  int bells[kWorkers];
  for (uint32_t i = 0; i < kWorkers; ++i) {
    bells[i] = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rings.set_doorbell(i, {i == 2 ? &runs : &sleeps, bells[i]});
  }
  const auto was_woken = [&](uint32_t worker) {
    eventfd_t count = 0;
    return ::eventfd_read(bells[worker], &count) == 0;
  };
  hosts[0].router.share_neighbour_update(WorkerMessage::ArpUpdate{}, kAllWorkers);
  hosts[0].router.end_turn();
  EXPECT_FALSE(was_woken(1)) << "nobody waits for it";
  hosts[0].router.wake_for_update(kAllWorkers);
  EXPECT_FALSE(was_woken(1)) << "once a turn, by end_turn()";
  hosts[0].router.end_turn();
  EXPECT_FALSE(was_woken(0));
  EXPECT_TRUE(was_woken(1));
  EXPECT_FALSE(was_woken(2)) << "it runs";
  hosts[0].router.end_turn();
  EXPECT_FALSE(was_woken(1));
  // A ring that nobody reads would have no room for the update that counts.
  for (uint32_t i = 1; i < kQuietUpdatesMax; ++i) {
    hosts[0].router.share_neighbour_update(WorkerMessage::ArpUpdate{}, kAllWorkers);
  }
  hosts[0].router.end_turn();
  EXPECT_TRUE(was_woken(1));
  for (const int bell : bells) ::close(bell);
}

}  // namespace
}  // namespace lyre::worker
