#include "stack/io/dpdk/tx_watch.h"

#include <gtest/gtest.h>

#include <vector>

namespace lyre::io::dpdk {
namespace {

constexpr Nanos kStep = millis(250);
constexpr int64_t kSteps = TxWatch::kStuckAfter.value / kStep.value;

/// The looks until the queue is stuck, or -1: `progress` is what it has done by look `i`.
template <typename Progress>
int64_t looks_until_stuck(const Progress& progress, bool is_link_up = true) {
  TxWatch watch;
  for (int64_t i = 0; i < 4 * kSteps; ++i) {
    if (watch.is_stuck(progress(static_cast<uint64_t>(i)), is_link_up, kStep * i)) return i;
  }
  return -1;
}

TEST(TxWatch, AQueueThatFreesNothingWhileItIsWaitedForIsStuck) {
  EXPECT_EQ(looks_until_stuck([](uint64_t i) { return TxProgress{.freed = 7, .waits = i}; }),
            kSteps + 1);
}

TEST(TxWatch, NobodyWaits) {
  EXPECT_EQ(looks_until_stuck([](uint64_t) { return TxProgress{.freed = 7, .waits = 9}; }), -1);
  EXPECT_EQ(looks_until_stuck([](uint64_t i) { return TxProgress{.freed = 7, .waits = i / 20}; }),
            -1);
}

TEST(TxWatch, AQueueThatFreesSlowlyIsNotStuck) {
  EXPECT_EQ(looks_until_stuck([](uint64_t i) { return TxProgress{.freed = i / 30, .waits = i}; }),
            -1);
}

/// Some drivers keep what they have while the link is down.
TEST(TxWatch, WithoutALinkAQueueIsStuckSooner) {
  const auto progress = [](uint64_t i) { return TxProgress{.freed = 7, .waits = i}; };
  EXPECT_EQ(looks_until_stuck(progress, false),
            TxWatch::kStuckWithoutLinkAfter.value / kStep.value + 1);
}

/// The times at which a queue that never frees anything is stuck, each followed by a restart.
/// `is_up`: the link at each time.
template <typename IsUp>
std::vector<Nanos> restarts(Nanos end, const IsUp& is_up) {
  TxWatch watch;
  std::vector<Nanos> out;
  uint64_t waits = 0;
  for (Nanos now = kStep; now < end; now = now + kStep) {
    if (!watch.is_stuck({.freed = 0, .waits = ++waits}, is_up(now), now)) continue;
    out.push_back(now);
    watch.back_off();
    watch.forget();
  }
  return out;
}

/// A restart trains the link anew, which some links need longer for than the first restart waits.
TEST(TxWatch, WithoutALinkEachRestartWaitsLonger) {
  const std::vector<Nanos> times = restarts(seconds(600), [](Nanos) { return false; });
  ASSERT_GE(times.size(), 8u);
  EXPECT_GT(times[3], seconds(60));
  for (size_t i = 1; i < times.size(); ++i) {
    const Nanos waited = times[i] - times[i - 1];
    EXPECT_GE(waited, earlier(TxWatch::kStuckWithoutLinkAfter * (int64_t{1} << i),
                              TxWatch::kStuckWithoutLinkAfterMax));
    EXPECT_LE(waited, TxWatch::kStuckWithoutLinkAfterMax + kStep);
  }
}

TEST(TxWatch, AfterTheLinkWasUpTheFirstRestartComesSoonAgain) {
  const auto times =
      restarts(seconds(50), [](Nanos now) { return now >= seconds(30) && now < seconds(32); });
  ASSERT_EQ(times.size(), 4u);  // after 5 and 10 s, and again from second 32 on
  EXPECT_EQ(times[2] - seconds(32), TxWatch::kStuckWithoutLinkAfter);
}

TEST(TxWatch, TimeCountsSinceTheLinkIsAsItIs) {
  TxWatch watch;
  for (uint64_t i = 0; i < 4 * kSteps; ++i) {
    const bool is_up = i / 19 % 2 == 0;
    EXPECT_FALSE(watch.is_stuck({.freed = 0, .waits = i}, is_up, kStep * static_cast<int64_t>(i)));
  }
}

/// The process was stopped, or its machine was paused, and the clock went on.
TEST(TxWatch, APauseCountsAsOneLook) {
  TxWatch watch;
  Nanos now = seconds(100);
  uint64_t waits = 1;
  EXPECT_FALSE(watch.is_stuck({.freed = 0, .waits = waits}, true, now));
  int64_t looks = 0;
  for (Nanos step = seconds(30); looks < 4 * kSteps; step = kStep, ++looks) {
    now = now + step;
    if (watch.is_stuck({.freed = 0, .waits = ++waits}, true, now)) break;
  }
  const Nanos counted = TxWatch::kCountedMax + kStep * looks;
  EXPECT_EQ(counted, TxWatch::kStuckAfter);
}

TEST(TxWatch, TimeBeforeForgetDoesNotCount) {
  TxWatch watch;
  for (uint64_t i = 0; i < 4 * kSteps; ++i) {
    EXPECT_FALSE(watch.is_stuck({.freed = 0, .waits = i}, true, kStep * static_cast<int64_t>(i)));
    if (i % 20 == 0) watch.forget();
  }
}

}  // namespace
}  // namespace lyre::io::dpdk
