#include "stack/worker/timer_wheel.h"

#include <gtest/gtest.h>

#include <vector>

#include "stack/base/rng.h"

namespace lyre::worker {
namespace {

std::vector<uint32_t> fired_at(TimerWheel& wheel, Nanos now) {
  std::vector<uint32_t> fired;
  wheel.advance(now, 1'000'000, [&](uint32_t index) { fired.push_back(index); });
  return fired;
}

TEST(TimerWheel, FiresAtTheFirstAdvanceAfterTheDeadlineAndOnlyOnce) {
  TimerWheel wheel(4);
  wheel.arm(2, millis(40));
  EXPECT_TRUE(fired_at(wheel, millis(39)).empty());
  EXPECT_EQ(fired_at(wheel, millis(41)), std::vector<uint32_t>{2});
  EXPECT_TRUE(fired_at(wheel, seconds(10)).empty());
}

TEST(TimerWheel, NextDeadlineIsNeverLateAndNeverWhenEmpty) {
  TimerWheel wheel(4);
  EXPECT_EQ(wheel.next_deadline(), kNever);
  wheel.arm(0, seconds(3600));
  EXPECT_LE(wheel.next_deadline(), seconds(3601));
  wheel.stop(0);
  EXPECT_EQ(wheel.next_deadline(), kNever);
}

TEST(TimerWheel, EarlierArmMovesTheEntryLaterArmLeavesIt) {
  TimerWheel wheel(2);
  wheel.arm(0, millis(100));
  wheel.arm(0, millis(10));
  wheel.arm(0, millis(500));
  EXPECT_EQ(fired_at(wheel, millis(11)), std::vector<uint32_t>{0});
}

TEST(TimerWheel, StopsWhenTheLimitIsReachedAndGoesOn) {
  TimerWheel wheel(8);
  for (uint32_t i = 0; i < 8; ++i) wheel.arm(i, millis(5));
  size_t count = wheel.advance(millis(6), 3, [](uint32_t) {});
  EXPECT_EQ(count, 3u);
  EXPECT_LE(wheel.next_deadline(), millis(6));
  count += wheel.advance(millis(6), 100, [](uint32_t) {});
  EXPECT_EQ(count, 8u);
}

TEST(TimerWheel, EntryMayArmItselfAgainWhileFiring) {
  TimerWheel wheel(1);
  wheel.arm(0, millis(1));
  int count = 0;
  for (int64_t at = 0; at <= 100; ++at) {
    wheel.advance(millis(at), 10, [&](uint32_t index) {
      ++count;
      wheel.arm(index, millis(at + 10));
    });
  }
  EXPECT_GE(count, 9);
  EXPECT_LE(count, 11);
}

// Against a plain table of deadlines: nothing is lost, early, or late by more than a jump.
TEST(TimerWheel, AgreesWithATableOverRandomRuns) {
  constexpr uint32_t kCount = 300;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    TimerWheel wheel(kCount);
    std::vector<Nanos> deadline(kCount, kNever);
    Nanos now{0};
    for (int step = 0; step < 2000; ++step) {
      const auto index = static_cast<uint32_t>(rng.below(kCount));
      if (rng.chance_ppm(700'000)) {
        const uint64_t spans[] = {1'000'000, 60'000'000, 5'000'000'000, 2'000'000'000'000};
        const Nanos at = now + nanos(static_cast<int64_t>(rng.below(spans[rng.below(4)])));
        wheel.arm(index, at);
        deadline[index] = earlier(deadline[index], at);
      } else if (rng.chance_ppm(300'000)) {
        wheel.stop(index);
        deadline[index] = kNever;
      }
      const Nanos hint = wheel.next_deadline();
      for (Nanos each : deadline) ASSERT_TRUE(each == kNever || hint <= each + micros(66));
      const bool jump_to_hint = rng.chance_ppm(500'000) && hint != kNever;
      now = later(now,
                  jump_to_hint ? hint : now + nanos(static_cast<int64_t>(rng.below(90'000'000))));
      wheel.advance(now, 1'000'000, [&](uint32_t due) {
        ASSERT_LE(deadline[due], now) << "seed " << seed;
        deadline[due] = kNever;
      });
      for (Nanos each : deadline) ASSERT_GT(each, now - micros(66)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace lyre::worker
