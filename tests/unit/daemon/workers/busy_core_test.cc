#include "daemon/workers/busy_core.h"

#include <gtest/gtest.h>

#include <optional>

namespace lyre {
namespace {

using Change = BusyCore::Action;

constexpr Nanos kTurn = millis(1);

class BusyCoreTest : public ::testing::Test {
 protected:
  /// Turns until the worker changes its core, at most for `span`; nullopt: it does not.
  std::optional<Change> turn_for(Nanos span, bool is_contended, bool is_free = false) {
    for (const Nanos end = now_ + span; now_ < end; now_ = now_ + kTurn) {
      const Change action = busy_core_.after_turn(is_contended, is_free, now_);
      if (action != Change::kStay) return action;
    }
    return std::nullopt;
  }
  /// How long it takes until the worker changes its core.
  Nanos time_to(Change expected, bool is_contended) {
    const Nanos from = now_;
    EXPECT_EQ(turn_for(seconds(100), is_contended), expected);
    return now_ - from;
  }

  BusyCore busy_core_;
  Nanos now_ = seconds(1);
};

TEST_F(BusyCoreTest, LeavesAThreadThatComputesForLongAndReturns) {
  EXPECT_EQ(time_to(Change::kLeave, true), BusyCore::kLongMin);
  EXPECT_EQ(time_to(Change::kReturn, false), BusyCore::kAwayMin);
  EXPECT_EQ(turn_for(seconds(100), false), std::nullopt) << "the thread has ended";
}

TEST_F(BusyCoreTest, StaysWhereAClientComputesBetweenTwoSteps) {
  for (int step = 0; step < 100; ++step) {
    EXPECT_EQ(turn_for(BusyCore::kLongMin - kTurn, true), std::nullopt);
    EXPECT_EQ(turn_for(BusyCore::kGapMax + kTurn, false), std::nullopt);
  }
}

TEST_F(BusyCoreTest, ASliceInWhichNothingCameForTheWorkerBeginsAnew) {
  EXPECT_EQ(turn_for(BusyCore::kLongMin - kTurn, true), std::nullopt);
  EXPECT_EQ(turn_for(kTurn, true, true), std::nullopt);
  EXPECT_EQ(time_to(Change::kLeave, true), BusyCore::kLongMin);
  EXPECT_EQ(time_to(Change::kReturn, false), BusyCore::kAwayMin);
}

TEST_F(BusyCoreTest, AGapInWhichItTestsAgainIsNoEnd) {
  EXPECT_EQ(turn_for(BusyCore::kLongMin - kTurn, true), std::nullopt);
  EXPECT_EQ(turn_for(BusyCore::kGapMax - kTurn, false), std::nullopt);
  EXPECT_EQ(busy_core_.after_turn(true, false, now_), Change::kLeave);
}

TEST_F(BusyCoreTest, IsAwayForLongerEachTimeTheThreadStillComputes) {
  Nanos expected = BusyCore::kAwayMin;
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(time_to(Change::kLeave, true), BusyCore::kLongMin);
    EXPECT_EQ(time_to(Change::kReturn, false), expected);
    expected = earlier(expected * 2, BusyCore::kAwayMax);
  }
}

TEST_F(BusyCoreTest, ALaterThreadIsANewOne) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(time_to(Change::kLeave, true), BusyCore::kLongMin);
    EXPECT_EQ(time_to(Change::kReturn, false), BusyCore::kAwayMin);
    turn_for(BusyCore::kAwayMin + kTurn, false);
  }
}

TEST_F(BusyCoreTest, StaysForAWhileWhereTheOtherCoresAreNoBetter) {
  Nanos stay = BusyCore::kAwayMin;
  EXPECT_EQ(time_to(Change::kLeave, true), BusyCore::kLongMin);
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(time_to(Change::kReturn, true), BusyCore::kLongMin);
    EXPECT_EQ(time_to(Change::kLeave, true), stay);
    stay = earlier(stay * 2, BusyCore::kAwayMax);
  }
}

// The cpuset lost the core meanwhile. Otherwise the worker would count as being there.
TEST_F(BusyCoreTest, AWorkerThatCannotReturnTriesAgain) {
  time_to(Change::kLeave, true);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(time_to(Change::kReturn, false), BusyCore::kAwayMin);
    busy_core_.on_failed_return(now_);
  }
  EXPECT_EQ(time_to(Change::kReturn, false), BusyCore::kAwayMin);
  EXPECT_EQ(turn_for(seconds(100), false), std::nullopt) << "the core is back";
}

TEST_F(BusyCoreTest, AWorkerThatMadeNoTurnsReturnsAtTheFirstOne) {
  time_to(Change::kLeave, true);
  now_ = now_ + seconds(1000);
  EXPECT_EQ(busy_core_.after_turn(true, false, now_), Change::kReturn);
}

}  // namespace
}  // namespace lyre
