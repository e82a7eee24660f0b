#include "stack/io/dpdk/tx_watch.h"

#include <gtest/gtest.h>

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

TEST(TxWatch, TimeCountsSinceTheLinkIsAsItIs) {
  TxWatch watch;
  for (uint64_t i = 0; i < 4 * kSteps; ++i) {
    const bool is_up = i / 19 % 2 == 0;
    EXPECT_FALSE(watch.is_stuck({.freed = 0, .waits = i}, is_up, kStep * static_cast<int64_t>(i)));
  }
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
