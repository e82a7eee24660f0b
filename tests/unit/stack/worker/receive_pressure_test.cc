#include "stack/worker/receive_pressure.h"

#include <gtest/gtest.h>

#include <optional>

#include "stack/tcp/connection_record.h"
#include "stack/worker/turn_limits.h"
#include "tests/unit/stack/worker/connected_parts.h"

namespace lyre::worker {
namespace {

constexpr uint32_t kPayload = 600;  ///< of a segment that keeps a slot of its own

class ReceivePressureTest : public ConnectedParts {
 protected:
  static constexpr uint64_t kUid = 1000;

  ~ReceivePressureTest() override { memory.release(taken_); }

  /// Other users of the pool take all that is left but `kept`.
  void exhaust_pool(uint32_t kept = 0) {
    while (memory.rx_slots_free() > kept) taken_.push_back(memory.alloc_rx());
  }
  void announce() {
    announcements.announce_all();
    while (next_completion()) {
    }
  }
  /// Accounts of a pool of so many slots, those that others of it hold included.
  void set_accounts(uint32_t slot_count, uint32_t weight) {
    state.accounts = ReceiveAccounts(slot_count, kContextsMax);
    state.accounts.open(kContext, kUid, weight);
  }
  /// Another client, which holds so many.
  void add_client(uint32_t context, uint64_t user, uint32_t slots) {
    state.contexts.open(context);
    state.accounts.open(context, user);
    state.accounts.add(context, slots);
  }
  /// The window in the last segment that the session sends now; empty: it sends none.
  std::optional<uint16_t> told_window(uint32_t of) {
    constexpr size_t kSourcePortAt = 14 + 20;  // of an Ethernet frame with IPv4 and TCP
    constexpr size_t kWindowAt = kSourcePortAt + 14;
    std::optional<uint16_t> window;
    transmission.transmit();
    for (const Frame& frame : take_frames()) {
      if (frame.size() < kWindowAt + 2) continue;
      const uint16_t port = wire::read_be16(frame.data() + kSourcePortAt);
      if (port != state.engine.tuple(of).local.port) continue;
      window = wire::read_be16(frame.data() + kWindowAt);
    }
    return window;
  }
  /// Other users of the pool give one slot back.
  void release_one() {
    memory.release({&taken_.back(), 1});
    taken_.pop_back();
  }
  uint32_t held() const { return state.accounts.held_by(kContext); }
  bool is_expelled() const { return state.contexts[kContext].state == Context::State::kExpelled; }
  /// The worker is told of it before the first turn that follows.
  void stand_still(Nanos span) {
    pressure.on_pause(span);
    state.now += span;
  }
  /// Turns as they are due, for so long or until the client is expelled.
  void relieve_for(Nanos span) {
    const Nanos end = state.now + span;
    pressure.watch();
    pressure.relieve();
    while (!is_expelled() && pressure.next_deadline() <= end) {
      state.now = pressure.next_deadline();
      pressure.relieve();
    }
  }

 private:
  std::vector<io::PacketBuf*> taken_;
};

TEST_F(ReceivePressureTest, WhileThePoolIsPlentifulNothingIsTaken) {
  receive_text(3 * kPayload, kPayload);
  pressure.watch();
  EXPECT_EQ(pressure.relieve(), 0u);
  EXPECT_EQ(pressure.next_deadline(), kNever);
  EXPECT_EQ(held(), 1u);
}

TEST_F(ReceivePressureTest, AClientAtItsLimitLosesWhatIsOutOfOrderNotMoreOftenThanThePause) {
  pressure.watch();
  receive_text(3 * kPayload, kPayload);
  pressure.on_limit(kContext);
  pressure.relieve();
  EXPECT_EQ(held(), 0u);
  receive_text(3 * kPayload, kPayload);
  pressure.watch();
  pressure.on_limit(kContext);
  pressure.relieve();
  EXPECT_EQ(held(), 1u) << "not before the pause is over";
  state.now += kPressurePause;
  pressure.watch();
  pressure.on_limit(kContext);
  pressure.relieve();
  EXPECT_EQ(held(), 0u);
}

TEST_F(ReceivePressureTest, WhatIsOutOfOrderGoesBeforeUnreadSessions) {
  receive_text(0, kPayload);
  receive_text(3 * kPayload, kPayload);
  exhaust_pool();
  relieve_for(kPressurePause);
  EXPECT_EQ(state.engine.state(conn), tcp::State::kEstablished);
  EXPECT_EQ(held(), 1u);
}

TEST_F(ReceivePressureTest, WithNothingButTheReserveLeftUnreadSessionsAreReset) {
  receive_text(0, kPayload);
  receive_text(kPayload, kPayload);
  announcements.announce_all();  // lends them
  receive_text(2 * kPayload, kPayload);
  receive_text(3 * kPayload, kPayload);
  exhaust_pool();
  relieve_for(nanos(0));
  EXPECT_EQ(state.engine.state(conn), tcp::State::kEstablished) << "at first only what is pruned";
  relieve_for(kPressurePause);
  EXPECT_EQ(state.session(conn).end_status, channel::EndStatus::kNoResources);
  EXPECT_EQ(held(), 2u) << "those that the client reads";
  EXPECT_EQ(memory.rx_slots_free(), 2u);
}

// A reader that pauses is no reason to reset sessions of a client within its share.
TEST_F(ReceivePressureTest, AClientWithAGreatWeightThatReadsNothingKeepsItsSessions) {
  set_accounts(/*slot_count=*/32, /*weight=*/16);
  for (uint32_t i = 0; i < 20; ++i) receive_text(held() * kPayload, kPayload);
  EXPECT_GT(held(), 4u);
  EXPECT_GT(drops(Drop::kRxPoolLow), 0u) << "it had room for all";
  relieve_for(kPressurePause * 2);
  EXPECT_EQ(state.engine.state(conn), tcp::State::kEstablished);
  EXPECT_FALSE(is_expelled());
}

// Users above their floor get nothing then, also of what their readers wait for.
TEST_F(ReceivePressureTest, APartOfTheReserveMayBeMissingForAWhileOnly) {
  set_accounts(/*slot_count=*/64, /*weight=*/1);
  for (uint32_t i = 0; i < 3; ++i) receive_text(i * kPayload, kPayload);
  exhaust_pool(/*kept=*/3);
  ASSERT_TRUE(state.accounts.is_reserve(3));
  ASSERT_FALSE(state.accounts.is_short(3));
  relieve_for(kGreedGrace - kPressurePause);
  EXPECT_EQ(state.engine.state(conn), tcp::State::kEstablished);
  relieve_for(kGreedGrace + kPressurePause);
  EXPECT_EQ(state.session(conn).end_status, channel::EndStatus::kNoResources);
}

TEST_F(ReceivePressureTest, TheClientWithMostForItsWeightLosesUnreadSessions) {
  constexpr uint32_t kOther = 1;
  attach(kOther);
  set_accounts(/*slot_count=*/16, /*weight=*/1);
  state.accounts.open(kOther, kUid + 1, /*weight=*/8);
  for (uint32_t i = 0; i < 3; ++i) receive_text(i * kPayload, kPayload);
  state.accounts.add(kOther, 6);
  exhaust_pool();
  relieve_for(kPressurePause);
  EXPECT_EQ(state.session(conn).end_status, channel::EndStatus::kNoResources);
  state.accounts.remove(kOther, 6);
}

// None of them has more than a floor. Nobody lost anything, and all others had nothing for ever.
TEST_F(ReceivePressureTest, ClientsOfAUserWithThePoolLoseUnreadSessionsAtTheirFloor) {
  constexpr uint32_t kClients = 64;
  set_accounts(/*slot_count=*/kClients, /*weight=*/1);
  for (uint32_t i = 1; i < kClients; ++i) add_client(i, kUid, 1);
  receive_text(0, kPayload);
  ASSERT_LE(held(), state.accounts.floor());
  exhaust_pool();
  relieve_for(kPressurePause);
  EXPECT_EQ(state.session(conn).end_status, channel::EndStatus::kNoResources);
}

TEST_F(ReceivePressureTest, AClientOfTheUserWithMostLosesUnreadSessions) {
  set_accounts(/*slot_count=*/128, /*weight=*/1);
  add_client(1, kUid, 2);
  add_client(2, kUid, 2);
  add_client(3, kUid + 1, 6);
  for (uint32_t i = 0; i < 3; ++i) receive_text(i * kPayload, kPayload);
  exhaust_pool();
  relieve_for(kPressurePause);
  EXPECT_EQ(state.session(conn).end_status, channel::EndStatus::kNoResources);
}

// The slots of a client that is being disconnected come back: others of its user have not taken
// them.
TEST_F(ReceivePressureTest, WhatADisconnectedClientHasDoesNotCountForOthersOfItsUser) {
  set_accounts(/*slot_count=*/128, /*weight=*/1);
  add_client(1, kUid, 100);
  state.contexts[1].state = Context::State::kExpelled;
  receive_text(0, kPayload);
  exhaust_pool();
  relieve_for(kPressurePause);
  EXPECT_EQ(state.engine.state(conn), tcp::State::kEstablished);
}

TEST_F(ReceivePressureTest, AClientThatKeepsWhatItWasLentIsExpelledAfterTheGrace) {
  for (uint32_t i = 0; i < 3; ++i) receive_text(i * kPayload, kPayload);
  announce();
  exhaust_pool();
  relieve_for(kGreedGrace - kPressurePause);
  EXPECT_FALSE(is_expelled());
  relieve_for(kPressurePause * 2);
  EXPECT_TRUE(is_expelled());
  const auto reply = next_reply();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->kind, Reply::Kind::kExpelled);
}

TEST_F(ReceivePressureTest, AStandstillIsNoPartOfTheGrace) {
  for (uint32_t i = 0; i < 3; ++i) receive_text(i * kPayload, kPayload);
  announce();
  exhaust_pool();
  relieve_for(kGreedGrace / 2);
  stand_still(seconds(5));
  relieve_for(kPressurePause * 2);
  EXPECT_FALSE(is_expelled());
  relieve_for(kGreedGrace);
  EXPECT_TRUE(is_expelled());
}

TEST_F(ReceivePressureTest, AStandstillResetsNoUnreadSession) {
  for (uint32_t i = 0; i < 3; ++i) receive_text(i * kPayload, kPayload);
  exhaust_pool();
  relieve_for(nanos(0));
  stand_still(seconds(5));
  relieve_for(nanos(0));
  EXPECT_EQ(state.engine.state(conn), tcp::State::kEstablished);
}

TEST_F(ReceivePressureTest, AStandstillIsNoTimeWithoutThePartOfTheReserve) {
  set_accounts(/*slot_count=*/64, /*weight=*/1);
  for (uint32_t i = 0; i < 3; ++i) receive_text(i * kPayload, kPayload);
  exhaust_pool(/*kept=*/3);
  relieve_for(nanos(0));
  stand_still(seconds(5));
  relieve_for(kGreedGrace / 2);
  EXPECT_EQ(state.engine.state(conn), tcp::State::kEstablished);
}

TEST_F(ReceivePressureTest, AClientThatReturnsSlotsHasNotKeptThem) {
  for (uint32_t i = 0; i < 3; ++i) receive_text(i * kPayload, kPayload);
  announce();
  exhaust_pool();
  relieve_for(kGreedGrace / 2);
  state.accounts.remove(kContext, 2);  // returned, and used again by others
  relieve_for(kPressurePause);
  state.accounts.add(kContext, 2);
  relieve_for(kGreedGrace);
  EXPECT_FALSE(is_expelled());
}

TEST_F(ReceivePressureTest, NothingIsTakenFromAClientBelowTheFloor) {
  receive_text(0, kPayload);
  ASSERT_LE(held(), state.accounts.floor());
  exhaust_pool();
  relieve_for(kGreedGrace * 2);
  EXPECT_EQ(state.engine.state(conn), tcp::State::kEstablished);
  EXPECT_FALSE(is_expelled());
}

// A peer that sends on a window update does not wait for its next probe. A Linux peer in CA_Loss
// does: it sends nothing before its retransmission timer expires, up to two minutes later.
TEST_F(ReceivePressureTest, ARefusedSessionTellsOfSlotsThatAnotherOneReleases) {
  set_accounts(/*slot_count=*/16, /*weight=*/1);
  const uint32_t refused = connect();
  for (uint32_t i = 0; i < 3; ++i) receive_text(i * kPayload, kPayload);
  ASSERT_EQ(held(), 3u);
  exhaust_pool(/*kept=*/2);
  receive(ip::tcp_frame(segment(refused, 0, kPayload)));
  ASSERT_EQ(drops(Drop::kRxPoolLow), 1u);
  EXPECT_EQ(told_window(refused), 0);
  EXPECT_EQ(pressure.next_deadline(), state.now + kPressurePause);
  state.now = pressure.next_deadline();
  pressure.relieve();
  EXPECT_EQ(told_window(refused), std::nullopt) << "there is none for it yet";
  payload.discard(conn);
  state.now = pressure.next_deadline();
  EXPECT_GT(pressure.relieve(), 0u);
  EXPECT_GT(told_window(refused).value_or(0), 0u);
  EXPECT_EQ(pressure.next_deadline(), kNever);
}

TEST_F(ReceivePressureTest, RoomForOneSegmentIsToldToOneRefusedSession) {
  set_accounts(/*slot_count=*/16, /*weight=*/1);
  const uint32_t first = connect();
  const uint32_t second = connect();
  for (uint32_t i = 0; i < 3; ++i) receive_text(i * kPayload, kPayload);
  exhaust_pool(/*kept=*/2);
  receive(ip::tcp_frame(segment(first, 0, kPayload)));
  receive(ip::tcp_frame(segment(second, 0, kPayload)));
  ASSERT_EQ(drops(Drop::kRxPoolLow), 2u);
  pressure.relieve();  // prunes: its work is not counted below
  release_one();
  for (const Nanos next : {state.now + kPressurePause * 2, kNever}) {
    state.now = pressure.next_deadline();
    EXPECT_EQ(pressure.relieve(), 1u);
    EXPECT_EQ(pressure.next_deadline(), next);
  }
}

// As SegmentInput decides on its next segment, which would be refused again.
TEST_F(ReceivePressureTest, ARefusedSessionWithItsFairSlotsUnreadIsNotToldOfMore) {
  set_accounts(/*slot_count=*/16, /*weight=*/1);
  for (uint32_t i = 0; i < 3; ++i) receive_text(i * kPayload, kPayload);
  state.engine.records().restore_charge(conn, (kRxFairSlots - 3) * memory.rx_slot_bytes());
  exhaust_pool(/*kept=*/3);
  receive_text(3 * kPayload, kPayload);
  ASSERT_EQ(drops(Drop::kRxPoolLow), 1u);
  ASSERT_FALSE(state.accounts.may_hold(kContext, 2));
  ASSERT_TRUE(state.accounts.may_overdraw(kContext, 2));
  pressure.relieve();  // prunes: its work is not counted below
  state.now = pressure.next_deadline();
  EXPECT_EQ(pressure.relieve(), 0u);
  EXPECT_EQ(pressure.next_deadline(), state.now + kPressurePause);
  announce();  // what it holds is read, and still held
  state.now = pressure.next_deadline();
  EXPECT_EQ(pressure.relieve(), 1u);
  EXPECT_EQ(pressure.next_deadline(), kNever);
}

TEST_F(ReceivePressureTest, ARefusedSessionThatEndsIsForgotten) {
  set_accounts(/*slot_count=*/16, /*weight=*/1);
  pressure.on_refused(conn + 1);  // which is not open
  state.now = pressure.next_deadline();
  EXPECT_EQ(pressure.relieve(), 0u);
  EXPECT_EQ(pressure.next_deadline(), kNever);
}

}  // namespace
}  // namespace lyre::worker
