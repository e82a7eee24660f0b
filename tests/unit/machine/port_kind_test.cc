#include "machine/port_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/machine/tree.h"

namespace lyre::machine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

TEST(PortKind, VirtualDevicesByTheirDriver) {
  const Tree tree;
  EXPECT_EQ(port_kind("net_memif0,socket=/run/lyred/a", tree.roots()), PortKind::kPlain);
  EXPECT_EQ(port_kind("net_af_packet0,iface=veth0", tree.roots()), PortKind::kAfPacket);
  EXPECT_EQ(port_kind("net_af_xdp0,iface=eth1", tree.roots()), PortKind::kAfXdp);
  EXPECT_EQ(port_kind("net_tap0", tree.roots()), PortKind::kTap);
  EXPECT_EQ(
      port_kind("vmbus:6045bd7a-8d7c-6045-bd7a-8d7c6045bd7a,mac=00:0d:3a:00:00:01", tree.roots()),
      PortKind::kVmbus);
}

TEST(PortKind, NicsByTheirKernelDriver) {
  Tree tree;
  EXPECT_EQ(port_kind("0000:00:05.0", tree.roots()), PortKind::kPlain) << "it is not there";
  tree.add_nic("0000:00:05.0", "0x1d0f 0xec20", "ena", "eth1");
  tree.add_nic("0000:00:06.0", "0x1d0f 0xec20", "igb_uio", "");
  tree.add_nic("0000:00:07.0", "0x8086 0x154c", "vfio-pci", "");
  tree.add_nic("0000:00:08.0", "0x15b3 0x1019", "mlx5_core", "eth2");
  EXPECT_EQ(port_kind("0000:00:05.0", tree.roots()), PortKind::kPlain);
  EXPECT_EQ(port_kind("00:06.0,a=1", tree.roots()), PortKind::kWithoutIommu);
  EXPECT_EQ(port_kind("0000:00:07.0", tree.roots()), PortKind::kWithoutIommu);
  tree.link("sys/bus/pci/devices/0000:00:07.0/iommu_group", "sys/kernel/iommu_groups/3");
  EXPECT_EQ(port_kind("0000:00:07.0", tree.roots()), PortKind::kPlain);
  EXPECT_EQ(port_kind("0000:00:08.0", tree.roots()), PortKind::kBesideKernelDriver);
}

TEST(PortKind, DropInsAreThoseThatAreShipped) {
  EXPECT_THAT(drop_ins_of(PortKind::kPlain), IsEmpty());
  EXPECT_THAT(drop_ins_of(PortKind::kVmbus),
              ElementsAre("no-iommu.conf", "beside-kernel-driver.conf"));
  for (const PortKind kind : {PortKind::kTap, PortKind::kVmbus}) {
    EXPECT_THAT(shipped_drop_ins(), IsSupersetOf(drop_ins_of(kind)));
  }
}

}  // namespace
}  // namespace lyre::machine
