#include "daemon/workers/standstills.h"

#include <gtest/gtest.h>

namespace lyre {
namespace {

TEST(Standstills, AShortOneIsNotTold) {
  Standstills standstills;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(standstills.on_turn(millis(9))) << i;
  EXPECT_FALSE(standstills.on_turn(millis(199)));
}

TEST(Standstills, SlicesAddUpAndAreNoPause) {
  Standstills standstills;
  EXPECT_FALSE(standstills.on_turn(millis(150)));
  const auto told = standstills.on_turn(millis(60));
  ASSERT_TRUE(told);
  EXPECT_EQ(told->all, millis(210));
  EXPECT_EQ(told->pause, nanos(0));
  EXPECT_FALSE(standstills.on_turn(millis(150))) << "it was told of what was before";
}

TEST(Standstills, ALongOneIsAPause) {
  Standstills standstills;
  EXPECT_FALSE(standstills.on_turn(millis(50)));
  const auto told = standstills.on_turn(millis(300));
  ASSERT_TRUE(told);
  EXPECT_EQ(told->all, millis(350));
  EXPECT_EQ(told->pause, millis(300));
}

TEST(Standstills, ASleepIsNone) {
  Standstills standstills;
  standstills.on_sleep(millis(500));
  EXPECT_FALSE(standstills.on_turn(millis(505)));
  standstills.on_sleep(kNever);
  EXPECT_FALSE(standstills.on_turn(seconds(100)));
  standstills.on_sleep(millis(100));
  const auto told = standstills.on_turn(millis(350));
  ASSERT_TRUE(told) << "late from the end of the sleep on";
  EXPECT_EQ(told->all, millis(250));
  EXPECT_TRUE(standstills.on_turn(millis(250))) << "a sleep counts once";
}

}  // namespace
}  // namespace lyre
