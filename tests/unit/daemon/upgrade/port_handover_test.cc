#include "daemon/upgrade/port_handover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lyre {
namespace {

using ::testing::HasSubstr;

Config config_with(const std::vector<std::string>& devices) {
  Config config;
  for (const std::string& device : devices) {
    config.ports.push_back({.name = "rail" + std::to_string(config.ports.size())});
    config.ports.back().device = device;
  }
  return config;
}

TEST(PortHandover, PortsAreOpenedBeforeTheOldProcessStopsOrWhenItHasClosedThem) {
  const Config config =
      config_with({"net_memif0,role=server", "net_af_packet0,iface=veth0", "net_memif1,role=client",
                   "net_af_packet1,iface=veth1", "net_af_xdp0,iface=eth0",
                   "0000:00:06.0,rx_cqe_comp_en=0", "7870:00:00.0,mac=00:0d:3a:00:00:01"});
  EXPECT_TRUE(check_ports_can_be_handed_over(config, 0).ok());
  EXPECT_EQ(ports_with(PortHandover::kBefore, config), 0b1010u);
  EXPECT_EQ(ports_with(PortHandover::kClosed, config), 0b1110101u);
  EXPECT_EQ(ports_with(PortHandover::kStopped, config_with({"net_tap0,iface=lyre0"})), 1u);
}

TEST(PortHandover, APortThatCannotBeHandedOverIsNamed) {
  const Status refused = check_ports_can_be_handed_over(
      config_with({"net_memif0,role=server", "vmbus:6045bd7a-8d7c-6045-bd7a-8d7c6045bd7a"}), 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text, HasSubstr("'rail1' (vmbus:6045bd7a"));
  const Status shared = check_ports_can_be_handed_over(
      config_with({"7870:00:00.0,mac=00:0d:3a:00:00:01", "7870:00:00.0,mac=00:0d:3a:00:00:02"}), 0);
  ASSERT_FALSE(shared.ok());
  EXPECT_THAT(shared.error().text, HasSubstr("same PCI function"));
}

// The new process failed, and the old one went on with packets that its driver had freed twice.
TEST(PortHandover, APortWhoseDriverFreesTwiceWhenItClosesIsNamed) {
  const Config config = config_with({"0000:00:06.0", "0000:00:07.0"});
  const Status refused = check_ports_can_be_handed_over(config, 0b10);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().text,
            "port 'rail1' (0000:00:07.0) cannot be handed over: its driver frees packets twice "
            "when it closes; restart the daemon instead");
  EXPECT_TRUE(check_ports_can_be_handed_over(config, 0).ok());
}

}  // namespace
}  // namespace lyre
