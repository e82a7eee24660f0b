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

/// Ten long yields, with so many short ones after each answer: it stands twice as long each time,
/// up to a bound.
void expect_doubled_memory(int short_yields) {
  CoreContention core;
  Nanos now = seconds(1);
  Nanos memory = CoreContention::kMemoryMin;
  for (int i = 0; i < 10; ++i) {
    core.on_yield(kLong, now);
    EXPECT_TRUE(core.is_contended(now + memory - nanos(1)));
    now += memory;
    EXPECT_FALSE(core.is_contended(now));
    for (int j = 0; j < short_yields; ++j) core.on_yield(kShort, now += micros(5));
    memory = earlier(memory * 2, CoreContention::kMemoryMax);
  }
  EXPECT_EQ(memory, CoreContention::kMemoryMax);
}

TEST(CoreContention, TheSameAnswerStandsTwiceAsLongEachTimeUpToABound) { expect_doubled_memory(0); }

TEST(CoreContention, ATimeOfShortYieldsMakesTheNextLongOneTheFirst) {
  CoreContention core;
  for (int i = 0; i < 10; ++i) core.on_yield(kLong, seconds(1));
  const Nanos forgets = seconds(1) + CoreContention::kMemoryMax + CoreContention::kForgetAfter;
  core.on_yield(kShort, forgets);
  core.on_yield(kLong, seconds(2));
  EXPECT_FALSE(core.is_contended(seconds(2) + CoreContention::kMemoryMin));
}

TEST(CoreContention, SomeShortYieldsBetweenLongOnesTellNothing) { expect_doubled_memory(1000); }

}  // namespace
}  // namespace lyre
