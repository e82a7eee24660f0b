#include "daemon/host/port_privileges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/machine/tree.h"

namespace lyre {
namespace {

using ::testing::HasSubstr;

constexpr char kNic[] = "0000:00:06.0";
constexpr Capabilities kNone = 0;

/// A machine in which one NIC is bound to a kernel driver.
class PortPrivilegesTest : public testing::Test {
 protected:
  void bind(const std::string& driver, const std::string& group = "") {
    const std::string nic = std::string("sys/bus/pci/devices/") + kNic;
    std::filesystem::remove_all(tree_.path(nic));
    tree_.link(nic + "/driver", "sys/bus/pci/drivers/" + driver);
    tree_.write(nic + "/iommu_group/name", group + "\n");
  }
  static Config config(const std::string& device) {
    auto config = parse_config(
        "[[port]]\nname = \"rail0\"\ndevice = \"" + device + "\"\naddress = \"10.9.0.1/24\"\n",
        "f.toml");
    EXPECT_TRUE(config.ok()) << config.error().text;
    return *config;
  }
  Capabilities kept(const std::string& device) const {
    return capabilities_to_keep(config(device), tree_.roots()) & ~capability(CAP_IPC_LOCK);
  }

  machine::Tree tree_;
};

TEST_F(PortPrivilegesTest, VirtualWiresKeepLittle) {
  EXPECT_EQ(kept("net_memif0,role=server,socket=/run/lyred/wire.sock"), kNone);
  EXPECT_EQ(kept("net_af_packet0,iface=veth0"),
            capability(CAP_NET_RAW) | capability(CAP_NET_ADMIN));
  EXPECT_EQ(kept("net_tap0,iface=lyre0"), capability(CAP_NET_ADMIN));
  EXPECT_EQ(kept("net_af_xdp0,iface=eth1"),
            capability(CAP_NET_RAW) | capability(CAP_NET_ADMIN) | capability(CAP_BPF));
}

TEST_F(PortPrivilegesTest, ANicBehindAnIommuKeepsNothing) {
  bind("vfio-pci", "");
  EXPECT_EQ(kept(kNic), kNone);
  EXPECT_EQ(kept(std::string(kNic) + ",some_argument=1"), kNone);
}

TEST_F(PortPrivilegesTest, PhysicalAddressesAreSeenWithSysAdmin) {
  constexpr Capabilities kKept =
      capability(CAP_SYS_ADMIN) | capability(CAP_SYS_RAWIO) | capability(CAP_DAC_OVERRIDE);
  for (const char* driver : {"uio_pci_generic", "igb_uio"}) {
    bind(driver);
    EXPECT_EQ(kept(kNic), kKept) << driver;
  }
  bind("vfio-pci", "vfio-noiommu");
  EXPECT_EQ(kept(kNic), kKept);
}

TEST_F(PortPrivilegesTest, NicsBesideTheKernelsDriverKeepTheNetwork) {
  for (const char* driver : {"mlx5_core", "mana"}) {
    bind(driver);
    EXPECT_EQ(kept(kNic), capability(CAP_NET_RAW) | capability(CAP_NET_ADMIN)) << driver;
  }
}

TEST_F(PortPrivilegesTest, ANicOnTheVmbusIsBothWithoutIommuAndBesideTheKernel) {
  const std::string netvsc = "vmbus:6045bd7a-8d7c-6045-bd7a-8d7c6045bd7a";
  EXPECT_EQ(kept(netvsc), capability(CAP_SYS_ADMIN) | capability(CAP_SYS_RAWIO) |
                              capability(CAP_DAC_OVERRIDE) | capability(CAP_NET_RAW) |
                              capability(CAP_NET_ADMIN));
  EXPECT_THAT(check_privileges(config(netvsc), 0, tree_.roots()).error().text,
              HasSubstr("with the drop-ins no-iommu.conf and beside-kernel-driver.conf"));
}

TEST_F(PortPrivilegesTest, WhatIsMissingIsNamedWithItsDropIn) {
  constexpr Capabilities kBoth = capability(CAP_NET_RAW) | capability(CAP_NET_ADMIN);
  const Config wanted = config("net_af_packet0,iface=veth0");
  EXPECT_TRUE(check_privileges(wanted, kBoth, tree_.roots()).ok());
  const Status refused = check_privileges(wanted, capability(CAP_NET_ADMIN), tree_.roots());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().text,
            "f.toml:3: port.device: 'net_af_packet0,iface=veth0' of 'rail0' needs CAP_NET_RAW, "
            "allowed: root, or a service with the drop-in kernel-interface.conf");

  bind("uio_pci_generic");
  EXPECT_THAT(check_privileges(config(kNic), 0, tree_.roots()).error().text,
              HasSubstr("needs CAP_DAC_OVERRIDE CAP_SYS_RAWIO CAP_SYS_ADMIN, allowed: root, or a "
                        "service with the drop-in no-iommu.conf"));
  EXPECT_THAT(check_privileges(config(kNic), capability(CAP_SYS_ADMIN), tree_.roots()).error().text,
              HasSubstr("needs CAP_DAC_OVERRIDE CAP_SYS_RAWIO, allowed"));
  EXPECT_THAT(check_privileges(config("net_af_xdp0,iface=eth1"), kBoth, tree_.roots()).error().text,
              HasSubstr("needs CAP_BPF, allowed"));
  bind("mlx5_core");
  EXPECT_THAT(check_privileges(config(kNic), 0, tree_.roots()).error().text,
              HasSubstr("needs CAP_NET_ADMIN CAP_NET_RAW, allowed: root, or a service with the "
                        "drop-in beside-kernel-driver.conf"));
  bind("vfio-pci");
  EXPECT_TRUE(check_privileges(config(kNic), 0, tree_.roots()).ok());
}

}  // namespace
}  // namespace lyre
