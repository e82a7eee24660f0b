#include "machine/vmbus.h"

#include <gtest/gtest.h>

#include "machine/core_choice.h"
#include "machine/nic_guard.h"
#include "tests/unit/machine/tree.h"

namespace lyre::machine {
namespace {

constexpr char kId[] = "6045bd7a-8d7c-6045-bd7a-8d7c6045bd7a";
constexpr char kMac[] = "00:0d:3a:00:00:01";

/// A machine of Azure: eth1 on the VMbus, and eth2, its virtual function, on MANA.
class VmbusTest : public ::testing::Test {
 protected:
  VmbusTest() {
    const std::string folder = std::string("sys/bus/vmbus/devices/") + kId;
    tree_.write(folder + "/class_id", "{f8615163-df3e-46c5-913f-f2d2f965ed0e}\n");
    tree_.write(folder + "/numa_node", "0\n");
    tree_.link(folder + "/driver", "sys/bus/vmbus/drivers/hv_netvsc");
    tree_.write(folder + "/net/eth1/mtu", "1500\n");
    tree_.write("sys/bus/vmbus/devices/other/class_id", "{44c4f61d-4444-4400-9d52-802e27ede19f}\n");
    add_interface("eth1", folder, "0x1003");
    tree_.add_nic("7870:00:00.0", "0x1414 0x00ba", "mana", "eth2");
    tree_.write("sys/class/net/eth2/address", std::string(kMac) + "\n");
    tree_.write("sys/class/net/eth2/flags", "0x1002\n");
    tree_.write("sys/class/net/eth2/speed", "100000\n");
  }
  void add_interface(const std::string& name, const std::string& device, const std::string& flags) {
    tree_.link("sys/class/net/" + name + "/device", device);
    tree_.write("sys/class/net/" + name + "/address", std::string(kMac) + "\n");
    tree_.write("sys/class/net/" + name + "/flags", flags + "\n");
  }
  static std::string device(const std::string& rest) { return "vmbus:" + std::string(kId) + rest; }

  Tree tree_;
};

TEST_F(VmbusTest, NetworkDevicesOnly) {
  const auto nics = vmbus_nics(tree_.roots());
  ASSERT_EQ(nics.size(), 1u);
  EXPECT_EQ(nics[0].id, kId);
  EXPECT_EQ(nics[0].driver, "hv_netvsc");
  EXPECT_EQ(nics[0].mac, kMac);
  EXPECT_EQ(device_of(nics[0]), device(""));
  EXPECT_EQ(nics[0].override_driver, "");
  EXPECT_EQ(nics[0].numa_node, 0);
  ASSERT_EQ(nics[0].interfaces.size(), 1u);
  EXPECT_EQ(nics[0].interfaces[0], "eth1");
}

TEST_F(VmbusTest, TheFunctionHasTheSameAddressOnThePciBus) {
  const FunctionInterface function = function_with(tree_.roots(), "00:0D:3A:00:00:01");
  EXPECT_EQ(function.name, "eth2");
  EXPECT_EQ(function.address, "7870:00:00.0");
  EXPECT_FALSE(function.is_up);
  tree_.write("sys/class/net/eth2/flags", "0x1003\n");
  EXPECT_TRUE(function_with(tree_.roots(), kMac).is_up);
  EXPECT_EQ(function_with(tree_.roots(), "00:0d:3a:00:00:02").name, "");
}

TEST_F(VmbusTest, IdentifiersHaveOneForm) {
  EXPECT_EQ(vmbus_id_of(device("")), kId);
  EXPECT_EQ(vmbus_id_of("vmbus:6045BD7A-8D7C-6045-BD7A-8D7C6045BD7A,mac=a"), kId);
  EXPECT_EQ(vmbus_id_of("vmbus:eth1"), "");
  EXPECT_EQ(vmbus_id_of(kId), "");
  EXPECT_EQ(vmbus_id_of("0000:00:06.0"), "");
}

TEST_F(VmbusTest, AWorkerCountThatTheFunctionTakes) {
  const PortDemand demand = demand_of(tree_.roots(), device(",mac=" + std::string(kMac)), 0);
  EXPECT_EQ(demand.speed_mbps, 100'000u);
  EXPECT_EQ(demand.node, 1);
  EXPECT_TRUE(demand.needs_power_of_two);
  EXPECT_EQ(demand_of(tree_.roots(), device(""), 0).node, 0);
}

TEST_F(VmbusTest, TheNicOfTheDefaultRouteIsGuarded) {
  EXPECT_FALSE(NicGuard(tree_.roots()).loss_with(device("")).has_value());
  tree_.write("proc/net/route",
              "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
              "eth1\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n");
  const NicGuard guard(tree_.roots());
  EXPECT_TRUE(guard.loss_with(device("")).has_value());
  const std::string other = "vmbus:6045bd7a-0000-6045-bd7a-00006045bd7a";
  EXPECT_FALSE(guard.loss_with(other).has_value());
  EXPECT_TRUE(guard.loss_with(other + ",mac=" + kMac).has_value()) << "it would take its function";
}

}  // namespace
}  // namespace lyre::machine
