#include "stack/base/look_clock.h"

#include <gtest/gtest.h>

namespace lyre {
namespace {

TEST(LookClock, TellsTheTimeSinceTheLastLook) {
  LookClock clock;
  EXPECT_EQ(clock.look(seconds(100)), Nanos()) << "the first look";
  EXPECT_EQ(clock.look(seconds(100) + millis(250)), millis(250));
  EXPECT_EQ(clock.look(seconds(170)), seconds(70) - millis(250));
  EXPECT_EQ(clock.look(seconds(170)), Nanos());
}

}  // namespace
}  // namespace lyre
