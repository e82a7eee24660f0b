#include "nccl_adapter/transport/attentive_clock.h"

#include <gtest/gtest.h>

namespace lyre::nccl_adapter {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(AttentiveClock, CountsTimeThatWasWatched) {
  AttentiveClock clock(5 * kSecond);
  EXPECT_EQ(clock.now_ns(), 5 * kSecond);
  for (int i = 1; i <= 100; ++i) clock.look(5 * kSecond + i * kSecond / 10);
  EXPECT_EQ(clock.now_ns(), 15 * kSecond);
  EXPECT_EQ(clock.monotonic_ns(), 15 * kSecond);
}

TEST(AttentiveClock, CountsLittleOfAPause) {
  AttentiveClock clock(kSecond);
  clock.look(61 * kSecond);
  EXPECT_EQ(clock.now_ns(), kSecond + AttentiveClock::kLookNsMax);
  EXPECT_EQ(clock.monotonic_ns(), 61 * kSecond);
}

TEST(AttentiveClock, CountsLittleOfStarvation) {
  AttentiveClock clock(0);
  for (int i = 1; i <= 20; ++i) clock.look(i * kSecond);
  EXPECT_EQ(clock.now_ns(), 20 * AttentiveClock::kLookNsMax);
}

TEST(AttentiveClock, CountsAWaitUpToItsLimit) {
  AttentiveClock clock(0);
  clock.look(2 * kSecond, 4 * kSecond);
  EXPECT_EQ(clock.now_ns(), 2 * kSecond);
  clock.look(62 * kSecond, 4 * kSecond);
  EXPECT_EQ(clock.now_ns(), 6 * kSecond);
}

TEST(AttentiveClock, SaysWhenAMomentWasForOthers) {
  AttentiveClock clock(0);
  clock.look(kSecond / 10);
  clock.look(10 * kSecond);
  EXPECT_EQ(clock.to_monotonic_ns(clock.now_ns()), 10 * kSecond);
  EXPECT_EQ(clock.to_monotonic_ns(clock.now_ns() - kSecond / 100), 10 * kSecond - kSecond / 100);
}

TEST(AttentiveClock, NeverGoesBack) {
  AttentiveClock clock(kSecond);
  clock.look(0);
  EXPECT_EQ(clock.now_ns(), kSecond);
}

}  // namespace
}  // namespace lyre::nccl_adapter
