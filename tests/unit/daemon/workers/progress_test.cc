#include "daemon/workers/progress.h"

#include <gtest/gtest.h>

#include "daemon/base/daemon_limits.h"

namespace lyre {
namespace {

TEST(Progress, IsThatOfEveryWorker) {
  uint64_t turns[2] = {0, 0};
  Progress progress(
      2, [&](uint32_t worker) { return turns[worker]; }, seconds(1));
  ++turns[0];
  EXPECT_FALSE(progress.look(seconds(2)));
  ++turns[1];
  EXPECT_FALSE(progress.look(seconds(3))) << "the first one stands still now";
  ++turns[0], ++turns[1];
  EXPECT_TRUE(progress.look(seconds(4)));
}

TEST(Progress, AWorkerHangsAfterAWhileOnly) {
  uint64_t turns = 1;
  Progress progress(
      1, [&](uint32_t) { return turns; }, seconds(1));
  EXPECT_TRUE(progress.look(seconds(1)));
  EXPECT_FALSE(progress.look(seconds(1) + millis(1))) << "it sleeps";
  EXPECT_FALSE(progress.is_hanging(seconds(1) + millis(1)));
  EXPECT_TRUE(progress.is_hanging(seconds(1) + kHangAfter));
  ++turns;
  progress.look(seconds(1) + kHangAfter);
  EXPECT_FALSE(progress.is_hanging(seconds(1) + kHangAfter));
}

// Containers have no watchdog.
TEST(Progress, AHangThatLastsEndsTheDaemon) {
  uint64_t turns = 0;
  Progress progress(
      1, [&](uint32_t) { return turns; }, seconds(1));
  Nanos now = seconds(100);  // the process was stopped for long
  const auto looks_until_the_end = [&] {
    int64_t looks = 0;
    for (; !progress.must_end(); ++looks) progress.look(now += kHousekeepingPeriod);
    return looks;
  };
  EXPECT_EQ(looks_until_the_end() * kHousekeepingPeriod.value, kEndAfter.value);
  ++turns;
  EXPECT_TRUE(progress.look(now));
  EXPECT_FALSE(progress.must_end());
  EXPECT_EQ(looks_until_the_end() * kHousekeepingPeriod.value, kEndAfter.value);
}

TEST(RareWarning, FollowsTheCounterAndNotMoreOftenThanItsPeriod) {
  RareWarning warning(seconds(10));
  EXPECT_FALSE(warning.is_due(0, seconds(100)));
  EXPECT_TRUE(warning.is_due(1, seconds(101)));
  EXPECT_FALSE(warning.is_due(2, seconds(105)));
  EXPECT_TRUE(warning.is_due(2, seconds(111)));
  EXPECT_FALSE(warning.is_due(2, seconds(200)));
}

}  // namespace
}  // namespace lyre
