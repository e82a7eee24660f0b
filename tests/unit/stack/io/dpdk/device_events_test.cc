#include "stack/io/dpdk/device_events.h"

#include <gtest/gtest.h>

namespace lyre::io::dpdk {
namespace {

TEST(DeviceEvents, ADeviceThatAsksForAResetRunsAfterIt) {
  DeviceEvents events;
  EXPECT_EQ(events.state(), PortState::kRunning);
  events.on_event(RTE_ETH_EVENT_INTR_RESET);
  EXPECT_EQ(events.state(), PortState::kResetting);
  events.on_restarted();
  EXPECT_EQ(events.state(), PortState::kRunning);
}

TEST(DeviceEvents, ADeviceThatRecoversNeedsNoReset) {
  DeviceEvents events;
  events.on_event(RTE_ETH_EVENT_ERR_RECOVERING);
  EXPECT_EQ(events.state(), PortState::kRecovering);
  events.on_restarted();
  EXPECT_EQ(events.state(), PortState::kRecovering) << "none was requested";
  events.on_event(RTE_ETH_EVENT_RECOVERY_SUCCESS);
  EXPECT_EQ(events.state(), PortState::kRunning);
}

TEST(DeviceEvents, ADeviceThatCannotRecoverIsReset) {
  DeviceEvents events;
  events.on_event(RTE_ETH_EVENT_ERR_RECOVERING);
  events.on_event(RTE_ETH_EVENT_RECOVERY_FAILED);
  EXPECT_EQ(events.state(), PortState::kResetting);
}

TEST(DeviceEvents, ADeviceThatIsAwayStaysSo) {
  DeviceEvents events;
  events.on_event(RTE_ETH_EVENT_INTR_RMV);
  for (const auto event : {RTE_ETH_EVENT_INTR_RESET, RTE_ETH_EVENT_ERR_RECOVERING,
                           RTE_ETH_EVENT_RECOVERY_SUCCESS, RTE_ETH_EVENT_RECOVERY_FAILED}) {
    events.on_event(event);
  }
  events.on_restarted();
  events.on_stuck();
  EXPECT_EQ(events.state(), PortState::kAway);
}

TEST(DeviceEvents, OnlyARunningDeviceIsStuck) {
  DeviceEvents events;
  events.on_stuck();
  EXPECT_EQ(events.state(), PortState::kDraining);
  events.on_restarted();
  EXPECT_EQ(events.state(), PortState::kRunning);
  DeviceEvents resetting;
  resetting.on_event(RTE_ETH_EVENT_INTR_RESET);
  resetting.on_stuck();
  EXPECT_EQ(resetting.state(), PortState::kResetting);
}

}  // namespace
}  // namespace lyre::io::dpdk
