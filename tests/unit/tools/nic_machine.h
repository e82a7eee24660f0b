#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/machine/tree.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/nic/boot_binding.h"
#include "tools/lyre/nic/nic.h"
#include "tools/lyre/nic/preparation.h"

namespace lyre::tools {

inline constexpr const char* kPagesFile = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

/// eth0 carries the default route; eth1 is ENA; the third is Lyre's; the fourth is a Mellanox NIC.
class NicTest : public ::testing::Test {
 protected:
  NicTest() {
    tree_.add_nic("0000:00:03.0", "0x1af4 0x1000", "virtio-pci", "eth0");
    tree_.add_nic("0000:00:05.0", "0x1d0f 0xec20", "ena", "eth1");
    tree_.add_nic("0000:00:06.0", "0x8086 0x154c", "vfio-pci", "");
    tree_.write("sys/bus/pci/devices/0000:00:06.0/driver_override", "vfio-pci\n");
    tree_.write("etc/driverctl.d/pci-0000:00:06.0", "vfio-pci\n");
    tree_.link("sys/bus/pci/devices/0000:00:06.0/iommu_group", "sys/kernel/iommu_groups/3");
    tree_.add_nic("0000:00:07.0", "0x15b3 0x1019", "mlx5_core", "eth2");
    tree_.write("proc/net/route",
                "Iface Destination Gateway Flags RefCnt Use Metric Mask\n"
                "eth0 00000000 0100000A 0003 0 0 0 00000000\n");
    states_ = nic_states(tree_.roots(), machine::NicGuard(tree_.roots()));
  }
  std::string refusal(const BindRequest& request) {
    try {
      bind_command(states_, request);
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "";
  }

  Commands prepare(const std::string& nic, const std::string& driver) {
    return prepare_commands(nic_named(states_, nic), driver, tree_.roots(), files());
  }
  Commands unprepare(const std::string& nic) {
    return unprepare_commands(states_, nic, tree_.roots(), files());
  }
  std::vector<std::string> kept(const std::string& nic) {
    return kept_preparations(states_, nic, tree_.roots(), files());
  }
  PreparedFiles files() const {
    return {.etc = tree_.path("etc"),
            .drop_ins = "/shipped",
            .boot = {.sysctl = {tree_.path("etc/sysctl.d")},
                     .tmpfiles = {tree_.path("etc/tmpfiles.d")}}};
  }
  void look_again() { states_ = nic_states(tree_.roots(), machine::NicGuard(tree_.roots())); }
  /// The preparation without what binds the NIC at a boot.
  void bind_at_boot(const std::string& nic) {
    const machine::Nic& bound = nic_named(states_, nic).nic;
    std::string text;
    for (const std::string& line : boot_drop_in_lines(bound, "/usr/bin/lyre")) text += line + "\n";
    tree_.write("etc/systemd/system/driverctl@pci-" + bound.address + ".service.d/lyre.conf", text);
  }

  machine::Tree tree_;
  std::vector<NicState> states_;
};

/// A machine of Azure: eth8 carries the default route, eth9 has eth2 as its virtual function.
class VmbusNicTest : public NicTest {
 protected:
  VmbusNicTest() {
    add_netvsc(kFirst, "eth8", "00:0d:3a:00:00:01");
    add_netvsc(kSecond, "eth9", "00:0d:3a:00:00:02");
    tree_.write("sys/class/net/eth2/address", "00:0d:3a:00:00:02\n");
    tree_.write("proc/net/route",
                "Iface Destination Gateway Flags RefCnt Use Metric Mask\n"
                "eth8 00000000 0100000A 0003 0 0 0 00000000\n");
    tree_.write("proc/meminfo", "Hugepagesize:       2048 kB\n");
    states_ = nic_states(tree_.roots(), machine::NicGuard(tree_.roots()));
  }
  void add_netvsc(const std::string& id, const std::string& interface, const std::string& mac) {
    const std::string folder = "sys/bus/vmbus/devices/" + id;
    tree_.write(folder + "/class_id", "{f8615163-df3e-46c5-913f-f2d2f965ed0e}\n");
    tree_.write(folder + "/driver_override", "(null)\n");
    tree_.write(folder + "/numa_node", "0\n");
    tree_.write(folder + "/net/" + interface + "/mtu", "1500\n");
    tree_.link(folder + "/driver", "sys/bus/vmbus/drivers/hv_netvsc");
    tree_.link("sys/class/net/" + interface + "/device", folder);
    tree_.write("sys/class/net/" + interface + "/address", mac + "\n");
  }

  static constexpr const char* kFirst = "f8615163-0000-1000-2000-6045bd7a8d01";
  static constexpr const char* kSecond = "f8615163-0000-1000-2000-6045bd7a8d02";
};

}  // namespace lyre::tools
