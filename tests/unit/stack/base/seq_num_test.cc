#include "stack/base/seq_num.h"

#include <gtest/gtest.h>

#include "stack/base/rng.h"

namespace lyre {
namespace {

TEST(SeqNum, OrderHoldsAcrossTheWrap) {
  // RFC 9293 3.4.
  const SeqNum old(0xfffffff0u);
  const SeqNum young(0x10u);
  EXPECT_TRUE(old.before(young));
  EXPECT_TRUE(young.after(old));
  EXPECT_FALSE(young.before(old));
  EXPECT_EQ(young.since(old), 0x20u);
  EXPECT_EQ(latest(old, young), young);
  EXPECT_EQ(earliest(old, young), old);
}

TEST(SeqNum, ANumberIsNeitherBeforeNorAfterItself) {
  const SeqNum number(7);
  EXPECT_FALSE(number.before(number));
  EXPECT_FALSE(number.after(number));
  EXPECT_TRUE(number.at_or_before(number));
  EXPECT_TRUE(number.at_or_after(number));
}

TEST(SeqNum, WindowIsHalfOpen) {
  const SeqNum low(0xffffffffu);
  EXPECT_TRUE(low.in_window(low, 2));
  EXPECT_TRUE(SeqNum(0).in_window(low, 2));
  EXPECT_FALSE(SeqNum(1).in_window(low, 2));
  EXPECT_FALSE(low.in_window(low, 0));
  EXPECT_FALSE((low - 1).in_window(low, 2));
}

TEST(SeqNum, AddingAndMeasuringAreInverse) {
  Rng rng(3);
  for (int i = 0; i < 1000; ++i) {
    const SeqNum start(static_cast<uint32_t>(rng.next()));
    const uint32_t count = static_cast<uint32_t>(rng.below(uint64_t{1} << 31));
    SeqNum moved = start;
    moved += count;
    EXPECT_EQ(moved.since(start), count);
    EXPECT_EQ(moved - count, start);
    if (count > 0) {
      EXPECT_TRUE(start.before(moved));
    }
  }
}

}  // namespace
}  // namespace lyre
