#include "stack/io/dpdk/tx_watch.h"

#include <gtest/gtest.h>

namespace lyre::io::dpdk {
namespace {

constexpr Nanos kStep = millis(250);
constexpr int64_t kSteps = TxWatch::kStuckAfter.value / kStep.value;

/// The looks until the queue is stuck, or -1: `progress` is what it has done by look `i`.
template <typename Progress>
int64_t looks_until_stuck(const Progress& progress) {
  TxWatch watch;
  for (int64_t i = 0; i < 4 * kSteps; ++i) {
    if (watch.is_stuck(progress(static_cast<uint64_t>(i)), kStep * i)) return i;
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

TEST(TxWatch, TimeWithoutALinkDoesNotCount) {
  TxWatch watch;
  for (uint64_t i = 0; i < 4 * kSteps; ++i) {
    EXPECT_FALSE(watch.is_stuck({.freed = 0, .waits = i}, kStep * static_cast<int64_t>(i)));
    if (i % 20 == 0) watch.forget();
  }
}

}  // namespace
}  // namespace lyre::io::dpdk
