#include "daemon/device_counters.h"

#include <gtest/gtest.h>

#include "daemon/daemon_limits.h"

namespace lyre {
namespace {

class DeviceCountersTest : public testing::Test {
 protected:
  CountedDevice device(size_t i) {
    return {.rx_missed =
                [this, i] {
                  ++asked_[i];
                  return missed_[i];
                },
            .shown = &shown_[i]};
  }

  uint64_t missed_[2] = {7, 0};
  int asked_[2] = {};
  channel::StatCounter shown_[2] = {};
  DeviceCounters counters_{{device(0), device(1)}};
};

TEST_F(DeviceCountersTest, ShowsWhatEachDeviceCounted) {
  counters_.look(seconds(5));
  EXPECT_EQ(shown_[0].get(), 7u);
  EXPECT_EQ(shown_[1].get(), 0u);
  missed_[1] = 3;
  counters_.look(seconds(5) + kDeviceCountersPeriod);
  EXPECT_EQ(shown_[0].get(), 7u) << "a total, not a sum of totals";
  EXPECT_EQ(shown_[1].get(), 3u);
}

TEST_F(DeviceCountersTest, AsksOnceAPeriodHoweverOftenItIsCalled) {
  for (int i = 0; i < 10; ++i) counters_.look(seconds(5) + kDeviceCountersPeriod * i / 10);
  EXPECT_EQ(asked_[0], 1);
  counters_.look(seconds(5) + kDeviceCountersPeriod);
  EXPECT_EQ(asked_[0], 2);
  EXPECT_EQ(asked_[1], 2);
}

}  // namespace
}  // namespace lyre
