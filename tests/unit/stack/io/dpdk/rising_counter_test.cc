#include "stack/io/dpdk/rising_counter.h"

#include <gtest/gtest.h>

namespace lyre::io::dpdk {
namespace {

TEST(RisingCounter, GoesOnWhereTheDeviceBeginsAtZero) {
  RisingCounter counter;
  counter.note(100);
  counter.note(120);
  EXPECT_EQ(counter.total(), 120u);
  counter.note(3);
  EXPECT_EQ(counter.total(), 123u);
  counter.note(3);
  EXPECT_EQ(counter.total(), 123u);
  counter.note(0);
  EXPECT_EQ(counter.total(), 123u);
}

// The first reading of a device that was opened again may be above the last one before.
TEST(RisingCounter, CountsADeviceThatWasOpenedAgainFromZero) {
  RisingCounter counter;
  counter.note(100);
  counter.restart();
  EXPECT_EQ(counter.total(), 100u);
  counter.note(150);
  EXPECT_EQ(counter.total(), 250u);
}

}  // namespace
}  // namespace lyre::io::dpdk
