#include "stack/base/core_contention.h"

#include <gtest/gtest.h>

namespace lyre {
namespace {

constexpr Nanos kShort = micros(10);
constexpr Nanos kLong = millis(3);

/// `slices` yields that gave a slice away each, with `between` between two of them. Returns when
/// the last one ended; the first begins at `now`.
Nanos lose_slices(CoreContention& core, Nanos now, int slices, Nanos between = kShort) {
  for (int i = 0; i < slices; ++i) {
    if (i > 0) core.on_yield(kShort, now += between);
    core.on_yield(kLong, now += kLong);
  }
  return now;
}

TEST(CoreContention, SlicesLostInARowCountForAWhile) {
  CoreContention core;
  Nanos now = lose_slices(core, seconds(1), CoreContention::kSlicesInARow - 1);
  EXPECT_FALSE(core.is_contended(now));
  core.on_yield(kLong, now += kLong);
  EXPECT_TRUE(core.is_contended(now));
  EXPECT_TRUE(core.is_contended(now + CoreContention::kMemoryMin - nanos(1)));
  EXPECT_FALSE(core.is_contended(now + CoreContention::kMemoryMin));
}

// A daemon that is a service polled for a whole slice of its own, lost one, and so on: half of the
// time of a core whose other threads had work.
TEST(CoreContention, OneSliceCountsThatWasLostToAThreadWhichYieldsDoNotReach) {
  CoreContention core;
  Nanos now = seconds(1);
  for (int i = 0; i < 3000; ++i) core.on_yield(micros(1), now += micros(1));
  core.on_yield(kLong, now += kLong);
  EXPECT_TRUE(core.is_contended(now));
  EXPECT_FALSE(core.is_contended(now + CoreContention::kMemoryMin));
}

TEST(CoreContention, OneSliceTellsNothingWhereYieldsReachTheOthers) {
  CoreContention core;
  Nanos now = seconds(1);
  for (int i = 0; i < 3000; ++i) core.on_yield(i % 3 == 0 ? micros(1) : kShort, now += micros(5));
  core.on_yield(kLong, now += kLong);
  EXPECT_FALSE(core.is_contended(now));
}

/// A rank that reduces uses a slice and yields again.
TEST(CoreContention, SlicesWithTimeBetweenThemTellNothing) {
  CoreContention core;
  const Nanos now = lose_slices(core, seconds(1), 100, CoreContention::kBetweenSlices);
  EXPECT_FALSE(core.is_contended(now));
}

/// Ten answers, with so many short yields after each: it stands twice as long each time, up to a
/// bound. All but the first cost one slice.
void expect_doubled_memory(int short_yields) {
  CoreContention core;
  Nanos now = seconds(1);
  Nanos memory = CoreContention::kMemoryMin;
  for (int i = 0; i < 10; ++i) {
    now = lose_slices(core, now, i == 0 ? CoreContention::kSlicesInARow : 1);
    EXPECT_TRUE(core.is_contended(now + memory - nanos(1)));
    now += memory;
    EXPECT_FALSE(core.is_contended(now));
    for (int j = 0; j < short_yields; ++j) core.on_yield(kShort, now += micros(5));
    memory = earlier(memory * 2, CoreContention::kMemoryMax);
  }
  EXPECT_EQ(memory, CoreContention::kMemoryMax);
}

TEST(CoreContention, TheSameAnswerStandsTwiceAsLongEachTimeUpToABound) { expect_doubled_memory(0); }

TEST(CoreContention, SomeShortYieldsBetweenAnswersTellNothing) { expect_doubled_memory(1000); }

/// The client computed between two steps. Now it works for Lyre, and takes shorter turns.
TEST(CoreContention, AShorterSliceDoesNotRepeatTheAnswer) {
  CoreContention core;
  Nanos now = lose_slices(core, seconds(1), CoreContention::kSlicesInARow);
  now += CoreContention::kMemoryMin;
  core.on_yield(kShort, now += kShort);
  core.on_yield(kLong / 2, now += kLong / 2);
  EXPECT_FALSE(core.is_contended(now));
}

TEST(CoreContention, ATimeOfShortYieldsMakesTheNextAnswerTheFirst) {
  CoreContention core;
  Nanos now = lose_slices(core, seconds(1), 10 * CoreContention::kSlicesInARow);
  now += CoreContention::kMemoryMax + CoreContention::kForgetAfter;
  core.on_yield(kShort, now);
  now = lose_slices(core, now, CoreContention::kSlicesInARow - 1);
  EXPECT_FALSE(core.is_contended(now));
  core.on_yield(kLong, now += kLong);
  EXPECT_TRUE(core.is_contended(now));
  EXPECT_FALSE(core.is_contended(now + CoreContention::kMemoryMin));
}

}  // namespace
}  // namespace lyre
