#include "libclient/regular_work.h"

#include <gtest/gtest.h>

namespace lyre::client {
namespace {

constexpr Nanos kBetweenPolls = micros(2);

/// Polls without a pause until the work may run. Returns when that was.
Nanos poll_until_it_runs(RegularWork& work, Nanos now) {
  while (!work.may_run(now)) now += kBetweenPolls;
  return now;
}

TEST(RegularWork, RunsAtEachPollOfAThreadThatPolls) {
  RegularWork work;
  Nanos now = poll_until_it_runs(work, seconds(1));
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(work.may_run(now += kBetweenPolls));
  EXPECT_TRUE(work.may_run(now + RegularWork::kPause - nanos(1)));
}

TEST(RegularWork, WaitsForTheFirstMessagesAfterAPause) {
  RegularWork work;
  Nanos now = poll_until_it_runs(work, seconds(1));
  now += RegularWork::kPause;
  EXPECT_FALSE(work.may_run(now));
  EXPECT_FALSE(work.may_run(now + RegularWork::kPutOffFor - nanos(1)));
  EXPECT_TRUE(work.may_run(now + RegularWork::kPutOffFor));
}

TEST(RegularWork, RunsAtEverySecondPollOfAThreadThatPollsRarely) {
  RegularWork work;
  Nanos now = seconds(1);
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(work.may_run(now += millis(100)));
    EXPECT_TRUE(work.may_run(now += millis(100)));
  }
}

TEST(RegularWork, APauseWhileItWaitsDoesNotPutItOffAgain) {
  RegularWork work;
  const Nanos now = poll_until_it_runs(work, seconds(1)) + RegularWork::kPause;
  EXPECT_FALSE(work.may_run(now));
  EXPECT_FALSE(work.may_run(now + kBetweenPolls));
  EXPECT_TRUE(work.may_run(now + kBetweenPolls + RegularWork::kPause));
}

}  // namespace
}  // namespace lyre::client
