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

TEST(CoreContention, ATimeOfShortYieldsMakesTheNextLongOneTheFirst) {
  CoreContention core;
  for (int i = 0; i < 10; ++i) core.on_yield(kLong, seconds(1));
  const Nanos forgets = seconds(1) + CoreContention::kMemoryMax + CoreContention::kForgetAfter;
  core.on_yield(kShort, forgets);
  core.on_yield(kLong, seconds(2));
  EXPECT_FALSE(core.is_contended(seconds(2) + CoreContention::kMemoryMin));
}

TEST(CoreContention, SomeShortYieldsBetweenLongOnesTellNothing) {
  CoreContention core;
  Nanos now = seconds(1);
  Nanos memory = CoreContention::kMemoryMin;
  for (int i = 0; i < 10; ++i) {
    core.on_yield(kLong, now);
    EXPECT_TRUE(core.is_contended(now + memory - nanos(1)));
    now += memory;
    for (int j = 0; j < 1000; ++j) core.on_yield(kShort, now += micros(5));
    memory = earlier(memory * 2, CoreContention::kMemoryMax);
  }
}

}  // namespace
}  // namespace lyre
