#include "stack/io/dpdk/rising_counter.h"

#include <gtest/gtest.h>

namespace lyre::io::dpdk {
namespace {

TEST(RisingCounter, GoesOnWhereTheDeviceBeginsAtZero) {
  RisingCounter counter;
  counter.note(100, Fall::kBegunAgain);
  counter.note(120, Fall::kBegunAgain);
  EXPECT_EQ(counter.total(), 120u);
  counter.note(3, Fall::kBegunAgain);
  EXPECT_EQ(counter.total(), 123u);
  counter.note(3, Fall::kBegunAgain);
  EXPECT_EQ(counter.total(), 123u);
  counter.note(0, Fall::kBegunAgain);
  EXPECT_EQ(counter.total(), 123u);
}

// The first reading of a device that was opened again may be above the last one before.
TEST(RisingCounter, CountsADeviceThatWasOpenedAgainFromZero) {
  RisingCounter counter;
  counter.note(100, Fall::kBegunAgain);
  counter.restart();
  EXPECT_EQ(counter.total(), 100u);
  counter.note(150, Fall::kBegunAgain);
  EXPECT_EQ(counter.total(), 250u);
}

// netvsc's own 5 were counted again each time that the host took its function away.
TEST(RisingCounter, CountsNothingAgainWhenAPartOfTheSumIsGone) {
  RisingCounter counter;
  for (const uint64_t reading : {15, 5, 7}) counter.note(reading, Fall::kPartGone);
  EXPECT_EQ(counter.total(), 17u);
  counter.note(9, Fall::kPartGone);  // the function is back, and counts from zero
  counter.note(7, Fall::kPartGone);
  EXPECT_EQ(counter.total(), 19u);
  counter.restart();
  counter.note(4, Fall::kPartGone);
  EXPECT_EQ(counter.total(), 23u);
}

TEST(RisingCounter, CountsAllAgainOfADeviceThatBeginsAgain) {
  RisingCounter counter;
  for (const uint64_t reading : {15, 5, 7}) counter.note(reading, Fall::kBegunAgain);
  EXPECT_EQ(counter.total(), 22u);
}

}  // namespace
}  // namespace lyre::io::dpdk
