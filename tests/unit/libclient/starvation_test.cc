#include "libclient/starvation.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lyre::client {
namespace {

using Advice = Starvation::Advice;

constexpr int64_t kStartNs = 1'000'000'000;
constexpr int64_t kSliceNs = 3'000'000;
constexpr int64_t kShortWaitNs = 3'000;

class StarvationTest : public ::testing::Test {
 protected:
  /// Lets time pass that the thread spent waiting for its core, each time for so long.
  void wait(int64_t span_ns, int64_t each_ns) {
    now_ns_ += span_ns;
    delay_.waited_ns += span_ns;
    delay_.turns += span_ns / each_ns;
  }
  void run(int64_t span_ns) { now_ns_ += span_ns; }
  Advice advise() {
    return starvation_.advise(now_ns_, [this] {
      ++reads_;
      return is_told_ ? std::optional(delay_) : std::nullopt;
    });
  }
  /// Asks after each of some lost slices, until there is other advice than to go on.
  Advice advise_after_slices() {
    for (int i = 0; i < 6; ++i) {
      if (const Advice advice = advise(); advice != Advice::kPoll) return advice;
      wait(kSliceNs, kSliceNs);
    }
    return advise();
  }

  Starvation starvation_;
  RunDelay delay_{.thread = 1};
  int64_t now_ns_ = kStartNs;
  int reads_ = 0;
  bool is_told_ = true;
};

TEST_F(StarvationTest, AThreadThatLosesSlicesMovesAndThenRests) {
  EXPECT_EQ(Advice::kPoll, advise());
  EXPECT_EQ(Advice::kMove, advise_after_slices());
  EXPECT_EQ(Advice::kRest, advise_after_slices());
  run(Starvation::kRestNsMin - 1);
  EXPECT_EQ(Advice::kRest, advise());
  run(1);
  EXPECT_EQ(Advice::kPoll, advise());
}

TEST_F(StarvationTest, SlicesOfSeveralThreadsAreNoPause) {
  advise();
  for (int i = 0; i < 2; ++i) {
    wait(Starvation::kPauseNs - 2000, Starvation::kPauseNs - 2000);
    EXPECT_EQ(i == 0 ? Advice::kPoll : Advice::kMove, advise());
    run(1000);
    EXPECT_EQ(Advice::kPoll, advise());
  }
}

TEST_F(StarvationTest, WhatFollowsAPauseDoesNotWaitForTheAccount) {
  for (int i = 0; i < 5; ++i) {
    run(50'000'000);
    advise();
    run(Starvation::kLookNs - 1);
    advise();
  }
  EXPECT_EQ(0, reads_);
}

TEST_F(StarvationTest, AThreadThatWasAloneForAWhileMovesAgain) {
  EXPECT_EQ(Advice::kMove, advise_after_slices());
  run(Starvation::kMoveAgainNs);
  advise();
  EXPECT_EQ(Advice::kMove, advise_after_slices());
}

TEST_F(StarvationTest, WhoMovesAgainSoonStaysAwayForLonger) {
  int64_t expected_ns = Starvation::kAwayNsMin;
  for (int i = 0; i < 7; ++i) {
    ASSERT_EQ(Advice::kMove, advise_after_slices());
    EXPECT_EQ(expected_ns, starvation_.away_ns());
    run(expected_ns);
    expected_ns = std::min(expected_ns * 2, Starvation::kAwayNsMax);
  }
  run(Starvation::kForgetNs);
  ASSERT_EQ(Advice::kMove, advise_after_slices());
  EXPECT_EQ(Starvation::kAwayNsMin, starvation_.away_ns());
}

TEST_F(StarvationTest, ShortWaitsAreThoseOfThreadsThatPoll) {
  advise();
  for (int i = 0; i < 100; ++i) {
    wait(1'000'000, kShortWaitNs);
    EXPECT_EQ(Advice::kPoll, advise());
  }
}

TEST_F(StarvationTest, ASliceNowAndThenIsNoStarvation) {
  advise();
  for (int i = 0; i < 10; ++i) {
    wait(kSliceNs, kSliceNs);
    run(kSliceNs + 1);
    EXPECT_EQ(Advice::kPoll, advise());
  }
}

TEST_F(StarvationTest, TheAccountIsReadOncePerLook) {
  advise();
  for (int i = 0; i < 300; ++i) {
    run(Starvation::kLookNs / 100);
    advise();
  }
  EXPECT_EQ(3, reads_);
}

TEST_F(StarvationTest, APauseOfTheCallerBeginsAnew) {
  advise();
  for (int i = 0; i < 5; ++i) {
    run(1'000'000);
    advise();
  }
  wait(50'000'000, kSliceNs);
  EXPECT_EQ(Advice::kPoll, advise());
  EXPECT_EQ(1, reads_);
}

TEST_F(StarvationTest, AnotherThreadHasAnotherAccount) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Advice::kPoll, advise());
    wait(kSliceNs, kSliceNs);
    ++delay_.thread;
  }
  EXPECT_EQ(Advice::kMove, advise_after_slices());
}

TEST_F(StarvationTest, WhatTheKernelDoesNotTellIsNone) {
  is_told_ = false;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Advice::kPoll, advise_after_slices());
}

TEST_F(StarvationTest, TheSameAdviceAgainLastsLonger) {
  int64_t expected_ns = Starvation::kRestNsMin;
  advise_after_slices();
  for (int i = 0; i < 8; ++i) {
    const Advice advice = advise_after_slices();
    if (advice == Advice::kMove) {
      ASSERT_EQ(Advice::kRest, advise_after_slices());
    }
    const int64_t from_ns = now_ns_;
    while (advise() == Advice::kRest) run(1'000'000);
    EXPECT_EQ(expected_ns, now_ns_ - from_ns);
    expected_ns = std::min(expected_ns * 2, Starvation::kRestNsMax);
  }
}

}  // namespace
}  // namespace lyre::client
