#include "daemon/ports/device_counters.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/base/daemon_limits.h"
#include "tests/unit/daemon/captured_log.h"

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
            .of_driver = [this, i] { return counted_[i]; },
            .shown = &shown_[i]};
  }

  uint64_t missed_[2] = {7, 0};
  int asked_[2] = {};
  std::vector<io::DeviceCounter> counted_[2];
  channel::StatsPort shown_[2] = {};
  DeviceCounters counters_{{device(0), device(1)}};
};

TEST_F(DeviceCountersTest, ShowsWhatEachDeviceCounted) {
  counters_.look(seconds(5));
  EXPECT_EQ(shown_[0].rx_missed.get(), 7u);
  EXPECT_EQ(shown_[1].rx_missed.get(), 0u);
  missed_[1] = 3;
  counters_.look(seconds(5) + kDeviceCountersPeriod);
  EXPECT_EQ(shown_[0].rx_missed.get(), 7u) << "a total, not a sum of totals";
  EXPECT_EQ(shown_[1].rx_missed.get(), 3u);
}

TEST_F(DeviceCountersTest, ShowsTheCountersOfEachDriverUnderTheirNames) {
  counted_[1] = {{"bw_in_allowance_exceeded", 5}};
  counters_.look(seconds(5));
  EXPECT_EQ(shown_[0].device_counter_count.load(), 0u);
  counted_[1] = {{"pps_allowance_exceeded", 1}, {"bw_in_allowance_exceeded", 6}};
  counters_.look(seconds(7));
  ASSERT_EQ(shown_[1].device_counter_count.load(), 2u);
  EXPECT_STREQ(shown_[1].device_counters[0].name, "bw_in_allowance_exceeded");
  EXPECT_EQ(shown_[1].device_counters[0].value.get(), 6u);
  EXPECT_STREQ(shown_[1].device_counters[1].name, "pps_allowance_exceeded");
  counted_[1].clear();  // the device was opened again
  counters_.look(seconds(9));
  EXPECT_EQ(shown_[1].device_counters[0].value.get(), 0u);
}

TEST_F(DeviceCountersTest, WhatHasNoPlaceIsLoggedOnce) {
  CapturedLog log;
  for (uint32_t i = 0; i < channel::kDeviceCountersMax + 3; ++i) {
    counted_[0].push_back({.name = "counter" + std::to_string(i), .value = i + 1});
  }
  counters_.look(seconds(5));
  EXPECT_EQ(shown_[0].device_counter_count.load(), channel::kDeviceCountersMax);
  EXPECT_EQ(shown_[0].device_counters[channel::kDeviceCountersMax - 1].value.get(),
            channel::kDeviceCountersMax);
  counters_.look(seconds(7));
  EXPECT_EQ(log.count("are not shown"), 1u);
  EXPECT_TRUE(log.has("more than 64 counters: counter64 and others are not shown"));
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
