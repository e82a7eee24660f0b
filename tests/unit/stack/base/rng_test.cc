#include "stack/base/rng.h"

#include <gtest/gtest.h>

#include <array>

namespace lyre {
namespace {

TEST(Rng, TheSameSeedGivesTheSameRun) {
  Rng a(1234);
  Rng b(1234);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.next(), b.next());
  EXPECT_NE(Rng(1).next(), Rng(2).next());
}

TEST(Rng, KnownFirstOutputs) {
  // SplitMix64 from seed 0, as published with the algorithm.
  Rng rng(0);
  EXPECT_EQ(rng.next(), 0xe220a8397b1dcdafu);
  EXPECT_EQ(rng.next(), 0x6e789e6aa1b965f4u);
}

TEST(Rng, BelowStaysBelowAndReachesAll) {
  Rng rng(5);
  std::array<int, 10> seen{};
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t value = rng.below(10);
    ASSERT_LT(value, 10u);
    ++seen[value];
  }
  for (int count : seen) EXPECT_NEAR(count, 1000, 200);
}

TEST(Rng, ChanceIsAboutWhatWasAsked) {
  Rng rng(6);
  int hits = 0;
  for (int i = 0; i < 100'000; ++i) hits += rng.chance_ppm(100'000) ? 1 : 0;
  EXPECT_NEAR(hits, 10'000, 600);
  EXPECT_FALSE(rng.chance_ppm(0));
  EXPECT_TRUE(rng.chance_ppm(1'000'000));
}

}  // namespace
}  // namespace lyre
