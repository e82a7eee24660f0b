#include "libclient/starvation.h"

#include <gtest/gtest.h>

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
  Advice advise_after_slices() {
    advise();
    wait(2 * kSliceNs, kSliceNs);
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
  wait(2 * kSliceNs, kSliceNs);
  EXPECT_EQ(Advice::kMove, advise());
  wait(2 * kSliceNs, kSliceNs);
  EXPECT_EQ(Advice::kRest, advise());
  run(Starvation::kRestNsMin - 1);
  EXPECT_EQ(Advice::kRest, advise());
  run(1);
  EXPECT_EQ(Advice::kPoll, advise());
}

TEST_F(StarvationTest, AThreadThatWasAloneForAWhileMovesAgain) {
  EXPECT_EQ(Advice::kMove, advise_after_slices());
  run(Starvation::kMoveAgainNs);
  advise();
  EXPECT_EQ(Advice::kMove, advise_after_slices());
}

TEST_F(StarvationTest, ShortWaitsAreThoseOfThreadsThatPoll) {
  advise();
  for (int i = 0; i < 10; ++i) {
    wait(Starvation::kLookNs, kShortWaitNs);
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
  for (int i = 0; i < 100; ++i) {
    run(Starvation::kLookNs / 100);
    advise();
  }
  EXPECT_EQ(2, reads_);
}

TEST_F(StarvationTest, APauseOfTheCallerBeginsAnew) {
  advise();
  wait(Starvation::kForgetNs + 1, kSliceNs);
  EXPECT_EQ(Advice::kPoll, advise());
}

TEST_F(StarvationTest, AnotherThreadHasAnotherAccount) {
  advise();
  wait(2 * kSliceNs, kSliceNs);
  delay_.thread = 2;
  EXPECT_EQ(Advice::kPoll, advise());
  EXPECT_EQ(Advice::kMove, advise_after_slices());
}

TEST_F(StarvationTest, WhatTheKernelDoesNotTellIsNone) {
  is_told_ = false;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Advice::kPoll, advise_after_slices());
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
