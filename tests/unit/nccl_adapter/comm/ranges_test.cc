#include "nccl_adapter/comm/ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace lyre::nccl_adapter {
namespace {

TEST(Ranges, NeighboursAreMerged) {
  Ranges ranges;
  ranges.add(10, 20);
  ranges.add(30, 40);
  EXPECT_EQ(ranges.pieces(), 2u);
  ranges.add(20, 30);
  EXPECT_EQ(ranges.pieces(), 1u);
  EXPECT_EQ(ranges.bytes(), 30u);
  EXPECT_TRUE(ranges.covers(10, 40));
  EXPECT_FALSE(ranges.covers(9, 11));
  EXPECT_TRUE(ranges.overlaps(0, 11));
  EXPECT_FALSE(ranges.overlaps(0, 10));
  EXPECT_FALSE(ranges.overlaps(40, 50));
}

TEST(Ranges, TheEmptyRangeIsCovered) {
  EXPECT_TRUE(Ranges().covers(5, 5));
  EXPECT_FALSE(Ranges().overlaps(5, 5));
}

TEST(Ranges, AgreesWithABitmap) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    Ranges ranges;
    std::vector<bool> bits(200);
    for (int i = 0; i < 300; ++i) {
      const uint64_t from = random() % bits.size();
      const uint64_t to = from + 1 + random() % (bits.size() - from);
      bool covers = true;
      bool overlaps = false;
      for (uint64_t at = from; at < to; ++at) {
        covers = covers && bits[at];
        overlaps = overlaps || bits[at];
      }
      ASSERT_EQ(ranges.covers(from, to), covers) << seed;
      ASSERT_EQ(ranges.overlaps(from, to), overlaps) << seed;
      if (overlaps || to - from > 8) continue;
      ranges.add(from, to);
      for (uint64_t at = from; at < to; ++at) bits[at] = true;
    }
    EXPECT_EQ(ranges.bytes(), static_cast<uint64_t>(std::count(bits.begin(), bits.end(), true)));
  }
}

}  // namespace
}  // namespace lyre::nccl_adapter
