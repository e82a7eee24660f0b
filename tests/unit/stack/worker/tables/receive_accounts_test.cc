#include "stack/worker/tables/receive_accounts.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "stack/session/session.h"

namespace lyre::worker {
namespace {

constexpr uint32_t kSlots = 6400;
constexpr uint32_t kUid = 1000;

/// Clients that take one slot in turn, until none may have another one.
class ReceiveAccountsTest : public testing::Test {
 protected:
  void attach(uint32_t context, uint32_t uid) { accounts.open(context, uid); }
  void take_all(const std::vector<uint32_t>& contexts) {
    take_while(contexts, &ReceiveAccounts::may_hold);
  }
  /// The same for bytes for which readers wait.
  void overdraw_all(const std::vector<uint32_t>& contexts) {
    take_while(contexts, &ReceiveAccounts::may_overdraw);
  }
  void take_while(const std::vector<uint32_t>& contexts,
                  bool (ReceiveAccounts::*may_take)(uint32_t, uint32_t) const) {
    for (bool took = true; took;) {
      took = false;
      for (const uint32_t context : contexts) {
        if (!(accounts.*may_take)(context, free)) continue;
        accounts.add(context, 1);
        --free;
        took = true;
      }
    }
    accounts.check_invariants();
  }

  /// As many clients of the uid, and nobody else. Returns them.
  std::vector<uint32_t> begin_with(uint32_t count) {
    accounts = ReceiveAccounts(kSlots, kContexts);
    free = kSlots;
    std::vector<uint32_t> contexts;
    for (uint32_t context = 0; context < count; ++context) {
      attach(context, kUid);
      contexts.push_back(context);
    }
    return contexts;
  }
  /// What a client of another uid, which comes now, can have.
  uint32_t left_to_another() {
    attach(kContexts - 1, kUid + 1);
    take_all({kContexts - 1});
    return accounts.held_by(kContexts - 1);
  }

  static constexpr uint32_t kContexts = 256;
  ReceiveAccounts accounts{kSlots, kContexts};
  uint32_t free = kSlots;
};

TEST_F(ReceiveAccountsTest, AClientAloneGetsFiveEighths) {
  attach(0, kUid);
  take_all({0});
  EXPECT_NEAR(accounts.held_by(0), kSlots * 5 / 8, 2);
}

TEST_F(ReceiveAccountsTest, AClientWithWeightGetsSoManyTimesTheSlots) {
  accounts.open(0, kUid, 1);
  accounts.open(1, kUid + 1, 3);
  constexpr uint32_t kFree = 600;
  EXPECT_EQ(accounts.limit_of(1, kFree), 3 * accounts.limit_of(0, kFree));
  for (const uint32_t client : {0u, 1u}) {
    accounts.add(client, accounts.limit_of(client, kFree));
    EXPECT_TRUE(accounts.may_hold(client, kFree));
    accounts.add(client, 1);
    EXPECT_FALSE(accounts.may_hold(client, kFree));
  }
}

TEST_F(ReceiveAccountsTest, GreedyClientsGetEqualPartsAndLeaveSome) {
  attach(0, kUid);
  attach(1, kUid + 1);
  take_all({0, 1});
  EXPECT_NEAR(accounts.held_by(0), kSlots * 3 / 8, 2);
  EXPECT_NEAR(accounts.held_by(1), kSlots * 3 / 8, 2);
  EXPECT_TRUE(accounts.is_plentiful(kSlots / 2));
  EXPECT_FALSE(accounts.is_low(free));
}

// Their readers may pause: what they hold within their limits is no shortage.
TEST_F(ReceiveAccountsTest, AClientWithAGreatWeightLeavesTheReserve) {
  accounts.open(0, kUid, 16);
  take_all({0});
  EXPECT_FALSE(accounts.is_reserve(free));
  overdraw_all({0});
  EXPECT_FALSE(accounts.is_reserve(free));
  EXPECT_GE(accounts.held_by(0), kSlots * 9 / 10);
}

TEST_F(ReceiveAccountsTest, UsersWithSeveralClientsLeaveTheReserve) {
  for (uint32_t context = 0; context < 9; ++context) attach(context, kUid + context / 3);
  const auto contexts = {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u};
  take_all(contexts);
  EXPECT_GT(free, kSlots / 16 + kSlots / 32);
  overdraw_all(contexts);
  EXPECT_FALSE(accounts.is_reserve(free));
}

TEST_F(ReceiveAccountsTest, SlotsAreTakenBackBeforeClientsBelowTheirFloorGetNone) {
  attach(0, kUid);
  uint32_t least = kSlots;
  while (accounts.may_overdraw(0, least)) --least;
  EXPECT_TRUE(accounts.is_short(least + kSlots / 16 / 8));
  EXPECT_FALSE(accounts.is_short(least + kSlots / 16 / 4));
}

TEST_F(ReceiveAccountsTest, ManyClientsOfAUidGetNoMoreThanFewAndEachAFloor) {
  for (uint32_t context = 0; context < 6; ++context) attach(context, kUid);
  take_all({0, 1, 2});
  const uint32_t before = free;
  EXPECT_GE(before, kSlots / 8);
  take_all({3, 4, 5});
  for (uint32_t context = 3; context < 6; ++context) {
    EXPECT_GE(accounts.held_by(context), kSlots / 640);
  }
  attach(6, kUid + 1);
  take_all({6});
  EXPECT_GE(accounts.held_by(6), kSlots / 20) << "of another uid";
}

// 64 clients of one uid had the whole pool by their floors, and others nothing for ever.
TEST_F(ReceiveAccountsTest, ClientsOfAUidOfWhateverNumberLeaveAPartToOthers) {
  for (const uint32_t count : {1u, 32u, 60u, 64u, 96u, 192u}) {
    const auto contexts = begin_with(count);
    take_all(contexts);
    overdraw_all(contexts);
    EXPECT_GE(left_to_another(), kSlots / 32) << count;
    EXPECT_FALSE(accounts.is_reserve(free)) << count;
  }
}

TEST_F(ReceiveAccountsTest, ClientsOfAUidThatComeInTurnLeaveAPartToOthers) {
  for (const uint32_t count : {64u, 192u}) {
    for (const uint32_t context : begin_with(count)) {
      take_all({context});
      overdraw_all({context});
    }
    EXPECT_GE(left_to_another(), kSlots / 32) << count;
  }
}

TEST_F(ReceiveAccountsTest, OneMoreClientOfAUidWhoseOthersHaveTheirSharesGetsSome) {
  const auto contexts = begin_with(64);
  take_all(contexts);
  overdraw_all(contexts);
  attach(64, kUid);
  take_all({64});
  EXPECT_GT(accounts.held_by(64), 0u);
}

// Nine contexts that did not read left no slot to the next one of their uid, for ever: the reserve
// was whole, so that nothing was taken back from them.
TEST_F(ReceiveAccountsTest, OneMoreClientGetsSomeBesideOthersThatTookAllInTurn) {
  for (const uint32_t count : {6u, 9u, 16u, 64u}) {
    for (const uint32_t context : begin_with(count)) {
      take_all({context});
      overdraw_all({context});
    }
    attach(count, kUid);
    take_all({count});
    EXPECT_GT(accounts.held_by(count), 0u) << count;
    EXPECT_GE(left_to_another(), kSlots / 32) << count;
  }
}

// 8 ranks with 8 communicators each, of which two do not read for a while.
TEST_F(ReceiveAccountsTest, ClientsWithoutSlotsTakeNothingFromTheFloorsOfOthers) {
  for (const uint32_t reading : {1u, 4u, 16u}) {
    begin_with(64);
    take_all({0});
    take_all({1});
    overdraw_all({0, 1});
    std::vector<uint32_t> readers(reading);
    std::iota(readers.begin(), readers.end(), 2);
    take_all(readers);
    EXPECT_GE(accounts.held_by(2), 4u) << reading;
    EXPECT_GE(accounts.held_by(1 + reading), 4u) << reading;
  }
}

// Each finds what those before it left: their floors add up, where each has a part of all.
TEST_F(ReceiveAccountsTest, EachClientOfAUidGetsSomeBesideAllThatCameBefore) {
  begin_with(0);
  for (uint32_t context = 0; context < 128; ++context) {
    attach(context, kUid);
    take_all({context});
    overdraw_all({context});
    EXPECT_GT(accounts.held_by(context), 0u) << context;
  }
  EXPECT_GE(left_to_another(), kSlots / 32);
}

TEST_F(ReceiveAccountsTest, TheLimitThatIsShownBesideGreedyOnesOfItsUserHolds) {
  begin_with(6);
  take_all({0, 1, 2});
  for (uint32_t context = 3; context < 6; ++context) {
    uint32_t limit = accounts.limit_of(context, free);
    while (accounts.may_hold(context, free)) {
      limit = accounts.limit_of(context, free);
      accounts.add(context, 1);
      --free;
    }
    EXPECT_EQ(accounts.held_by(context), limit) << context;
  }
}

TEST_F(ReceiveAccountsTest, TheFloorsOfAllAreHalfOfThePoolAtMost) {
  EXPECT_EQ(accounts.floor(), kSlots / 64);
  begin_with(192);
  EXPECT_LE(accounts.floor() * 192, kSlots / 2);
  EXPECT_EQ(accounts.user_floor(), kSlots / 64) << "one user";
  for (uint32_t context = 192; context < 255; ++context) attach(context, kUid + context);
  EXPECT_EQ(accounts.user_floor(), kSlots / 2 / 64);
  for (uint32_t context = 0; context < 255; ++context) accounts.close(context);
  EXPECT_EQ(accounts.floor(), kSlots / 64);
  EXPECT_EQ(accounts.user_floor(), kSlots / 64);
}

TEST_F(ReceiveAccountsTest, TheReserveIsForUsersBelowTheirFloor) {
  constexpr uint32_t kFree = kSlots / 16 - 1;
  begin_with(2);
  attach(2, kUid + 1);
  accounts.add(0, accounts.user_floor());
  EXPECT_FALSE(accounts.may_overdraw(1, kFree)) << "its user has its floor";
  EXPECT_TRUE(accounts.may_overdraw(2, kFree));
}

TEST_F(ReceiveAccountsTest, AFloorIsSafeUnlessTheUserHasMoreThanItsPart) {
  begin_with(64);
  const uint32_t floor = accounts.floor();
  EXPECT_TRUE(accounts.is_safe(floor, kSlots / 2));
  EXPECT_FALSE(accounts.is_safe(floor + 1, floor + 1));
  EXPECT_FALSE(accounts.is_safe(floor, kSlots / 2 + 1));
  attach(64, kUid + 1);
  EXPECT_FALSE(accounts.is_safe(1, kSlots / 4 + 1)) << "there are two users";
}

TEST_F(ReceiveAccountsTest, WhatAReaderWaitsForMayPassTheLimitButNotTheReserve) {
  attach(0, kUid);
  take_all({0});
  EXPECT_TRUE(accounts.may_overdraw(0, free));
  EXPECT_FALSE(accounts.may_overdraw(0, kSlots / 32 - 1));
  EXPECT_FALSE(accounts.may_hold(0, kSlots / 16 - 1));
}

TEST_F(ReceiveAccountsTest, TheUidOfTheNextClientIsItsOwn) {
  attach(0, kUid);
  accounts.add(0, 10);
  accounts.remove(0, 10);
  accounts.close(0);
  attach(0, kUid + 1);
  attach(1, kUid);
  take_all({1});
  EXPECT_TRUE(accounts.may_hold(0, free));
  accounts.remove(1, accounts.held_by(1));
  EXPECT_TRUE(accounts.empty());
}

TEST_F(ReceiveAccountsTest, TheLimitThatIsShownIsTheOneThatHolds) {
  for (uint32_t context = 0; context < 4; ++context) attach(context, kUid);
  constexpr uint32_t kFree = kSlots / 16 + 1000;
  EXPECT_EQ(accounts.limit_of(0, kFree), 2000u);
  for (const uint32_t context : {1u, 2u, 3u}) {
    accounts.add(context, 1500);
    free -= 1500;
  }
  EXPECT_EQ(accounts.limit_of(0, kFree), 500u) << "others of its user have the rest";
  accounts.add(0, 500);
  EXPECT_TRUE(accounts.may_hold(0, kFree));
  accounts.add(0, 1);
  EXPECT_FALSE(accounts.may_hold(0, kFree));
  attach(4, kUid + 1);
  constexpr uint32_t kReserve = kSlots / 16 - 1;
  EXPECT_EQ(accounts.limit_of(4, kReserve), accounts.user_floor()) << "only the reserve is left";
  EXPECT_EQ(accounts.limit_of(0, kReserve), 1u) << "the reserve is not for it: it is at its limit";
}

TEST_F(ReceiveAccountsTest, SessionsWithoutAClientShareAnAccount) {
  accounts.add(session::kNoContext, 3);
  EXPECT_EQ(accounts.held_by(session::kNoContext), 3u);
  EXPECT_FALSE(accounts.empty());
  accounts.remove(session::kNoContext, 3);
  EXPECT_TRUE(accounts.empty());
}

}  // namespace
}  // namespace lyre::worker
