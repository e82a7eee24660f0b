#include "stack/base/core_contention.h"

#include <gtest/gtest.h>

namespace lyre {
namespace {

constexpr Nanos kShort = micros(10);
constexpr Nanos kLong = millis(3);

TEST(CoreContention, AYieldThatGaveASliceAwayCountsForAWhile) {
  CoreContention core;
  const Nanos now = seconds(1);
  EXPECT_FALSE(core.is_contended(now));
  core.on_yield(kShort, now);
  EXPECT_FALSE(core.is_contended(now));
  core.on_yield(kLong, now);
  EXPECT_TRUE(core.is_contended(now));
  EXPECT_TRUE(core.is_contended(now + CoreContention::kMemoryMin - nanos(1)));
  EXPECT_FALSE(core.is_contended(now + CoreContention::kMemoryMin));
}

TEST(CoreContention, TheSameAnswerStandsTwiceAsLongEachTimeUpToABound) {
  CoreContention core;
  Nanos now = seconds(1);
  Nanos memory = CoreContention::kMemoryMin;
  for (int i = 0; i < 10; ++i) {
    core.on_yield(kLong, now);
    EXPECT_TRUE(core.is_contended(now + memory - nanos(1)));
    now += memory;
    EXPECT_FALSE(core.is_contended(now));
    memory = earlier(memory * 2, CoreContention::kMemoryMax);
  }
  EXPECT_EQ(memory, CoreContention::kMemoryMax);
}

TEST(CoreContention, ShortYieldsMakeTheNextLongOneTheFirst) {
  CoreContention core;
  const Nanos now = seconds(1);
  for (int i = 0; i < 10; ++i) core.on_yield(kLong, now);
  for (int i = 0; i < 10; ++i) core.on_yield(kShort, now + seconds(1));
  core.on_yield(kLong, now + seconds(2));
  EXPECT_FALSE(core.is_contended(now + seconds(2) + CoreContention::kMemoryMin));
}

TEST(CoreContention, ItsShortestMemoryCanBeGiven) {
  CoreContention core(CoreContention::kSharedMemoryMin);
  const Nanos now = seconds(1);
  for (int i = 0; i < 10; ++i) core.on_yield(kShort, now);
  core.on_yield(kLong, now);
  EXPECT_TRUE(core.is_contended(now + CoreContention::kSharedMemoryMin - nanos(1)));
  EXPECT_FALSE(core.is_contended(now + CoreContention::kSharedMemoryMin));
}

}  // namespace
}  // namespace lyre
