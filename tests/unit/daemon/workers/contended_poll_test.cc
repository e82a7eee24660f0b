#include "daemon/workers/contended_poll.h"

#include <gtest/gtest.h>

namespace lyre {
namespace {

constexpr Nanos kSoon = micros(10);
constexpr Nanos kLate = ContendedPoll::kLongest * 3;

/// A wait that outlasts a poll and ends with work after `idle`. True: it began with a poll.
bool wait(ContendedPoll& poll, Nanos idle) {
  const bool has_polled = poll.must_go_on(micros(1));
  EXPECT_FALSE(poll.must_go_on(ContendedPoll::kLongest));
  poll.on_work(idle);
  return has_polled;
}

int polls_of(ContendedPoll& poll, int waits, Nanos idle) {
  int polls = 0;
  for (int i = 0; i < waits; ++i) polls += wait(poll, idle) ? 1 : 0;
  return polls;
}

TEST(ContendedPoll, EndsWithItsTime) {
  ContendedPoll poll;
  EXPECT_TRUE(poll.must_go_on(micros(1)));
  EXPECT_TRUE(poll.must_go_on(ContendedPoll::kLongest - nanos(1)));
  EXPECT_FALSE(poll.must_go_on(ContendedPoll::kLongest));
  EXPECT_FALSE(poll.must_go_on(millis(1)));
}

TEST(ContendedPoll, GoesOnWhilePollsFindWork) {
  ContendedPoll poll;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(poll.must_go_on(micros(1)));
    poll.on_work(kSoon);
  }
}

TEST(ContendedPoll, IsLeftOutWherePollsFindNothing) {
  ContendedPoll poll;
  polls_of(poll, 100, kLate);
  const int waits = 100 * static_cast<int>(ContendedPoll::kTryAgainAfter);
  EXPECT_EQ(polls_of(poll, waits, kLate), 100);
}

TEST(ContendedPoll, IsTriedAgainUntilItPays) {
  ContendedPoll poll;
  polls_of(poll, 100, kLate);
  for (uint32_t i = 0; i < 20 * ContendedPoll::kTryAgainAfter; ++i) {
    poll.must_go_on(micros(1));
    poll.on_work(kSoon);
  }
  EXPECT_TRUE(poll.must_go_on(micros(1)));
  poll.on_work(kSoon);
  EXPECT_TRUE(poll.must_go_on(micros(1)));
}

TEST(ContendedPoll, AWaitSeenAfterAPollsEndIsNoPoll) {
  ContendedPoll poll;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(poll.must_go_on(kLate));
    EXPECT_FALSE(poll.must_go_on(kLate + micros(1)));
    poll.on_work(kLate * 2);
  }
  EXPECT_TRUE(poll.must_go_on(micros(1)));
}

TEST(ContendedPoll, WorkThatCameLateIsNotFoundByPolling) {
  ContendedPoll poll;
  // The thread that computes had the core: no turn saw the poll's end.
  for (int i = 0; i < 100; ++i) {
    poll.must_go_on(micros(1));
    poll.on_work(kLate);
  }
  int polls = 0;
  for (uint32_t i = 0; i < ContendedPoll::kTryAgainAfter; ++i) {
    polls += poll.must_go_on(micros(1)) ? 1 : 0;
    poll.on_work(kLate);
  }
  EXPECT_EQ(polls, 1);
}

}  // namespace
}  // namespace lyre
