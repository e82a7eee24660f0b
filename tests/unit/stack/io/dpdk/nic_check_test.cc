#include "stack/io/dpdk/nic_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/machine/tree.h"

namespace lyre::io::dpdk {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr DpdkVersion kDebian12{22, 11, 11};
constexpr DpdkVersion kUbuntu24{23, 11, 0};
constexpr DpdkVersion kDebian13{24, 11, 4};

PciNic ena(const char* driver) { return {0x1d0f, 0xec20, driver}; }
PciNic gvnic() { return {0x1ae0, 0x0042, "vfio-pci"}; }

/// The device arguments, or the refusal.
std::string prepared(const PciNic& nic, const DpdkVersion& version,
                     const std::string& device = "0000:00:06.0") {
  DeviceArgs args = DeviceArgs::parse(device);
  const Status status = prepare_nic(nic, version, args);
  return status.ok() ? args.text() : status.error().text;
}

/// The capability register of QEMU's intel-iommu, whose default is aw-bits=39, and with 48.
TEST(NicCheck, ANarrowIommuIsTheReasonThatMemoryIsOutOfReach) {
  machine::Tree tree;
  const std::string folder = tree.path("sys/bus/pci/devices/0000:00:06.0");
  const std::string cap = "sys/bus/pci/devices/0000:00:06.0/iommu/intel-iommu/cap";
  EXPECT_EQ(why_unreachable(folder, "said by DPDK"), "said by DPDK");
  tree.write(cap, "d2008c22260286\n");
  EXPECT_THAT(
      why_unreachable(folder, "said by DPDK"),
      AllOf(HasSubstr("addresses of 39 bits"), HasSubstr("said by DPDK"), HasSubstr("aw-bits=48")));
  tree.write(cap, "d2008c222f0686\n");
  EXPECT_EQ(why_unreachable(folder, "said by DPDK"), "said by DPDK");
}

TEST(NicCheck, EnaOnUioPollsForTheAnswersOfItsDevice) {
  EXPECT_EQ(prepared(ena("uio_pci_generic"), kDebian13),
            "0000:00:06.0,control_path_poll_interval=1000");
  EXPECT_EQ(prepared(ena("uio_pci_generic"), kDebian13,
                     "0000:00:06.0,control_path_poll_interval=500,llq_policy=1"),
            "0000:00:06.0,control_path_poll_interval=500,llq_policy=1");
  EXPECT_EQ(prepared(ena("vfio-pci"), kDebian13), "0000:00:06.0");
  EXPECT_EQ(prepared(ena("igb_uio"), kDebian12), "0000:00:06.0");
}

TEST(NicCheck, EnaOnUioNeedsAVersionThatCanPoll) {
  for (const DpdkVersion& version : {kDebian12, kUbuntu24}) {
    EXPECT_EQ(prepared(ena("uio_pci_generic"), version),
              "0000:00:06.0: ENA on uio_pci_generic needs DPDK 24.03 or later, and this is " +
                  version.text() +
                  ", allowed: lyred of Debian 13, or igb_uio or vfio-pci for the NIC");
  }
}

// It waited two seconds for each answer of its host, and could not be configured.
TEST(NicCheck, AnIntelVirtualFunctionNeedsAnInterrupt) {
  constexpr uint16_t kDevices[] = {0x1889, 0x37cd, 0x374d};
  for (const uint16_t device : kDevices) {
    for (const DpdkVersion& version : {kDebian12, kDebian13}) {
      EXPECT_EQ(prepared({0x8086, device, "uio_pci_generic"}, version),
                "0000:00:06.0: an Intel virtual function (iavf) gets no interrupt through "
                "uio_pci_generic, allowed: igb_uio or vfio-pci for the NIC");
    }
    EXPECT_EQ(prepared({0x8086, device, "igb_uio"}, kDebian12), "0000:00:06.0");
    EXPECT_EQ(prepared({0x8086, device, "vfio-pci"}, kDebian12), "0000:00:06.0");
  }
  EXPECT_EQ(prepared({0x8086, 0x1572, "uio_pci_generic"}, kDebian12), "0000:00:06.0") << "i40e";
  for (const uint16_t polling : {uint16_t{0x154c}, uint16_t{0x1571}}) {
    EXPECT_EQ(prepared({0x8086, polling, "uio_pci_generic"}, kDebian12), "0000:00:06.0");
  }
}

constexpr const char* kIce = "0000:00:06.0";

// DPDK said "Failed to load the DDP package,Use safe-mode-support=1".
TEST(NicCheck, AnE810NeedsItsPackage) {
  const PciNic without{0x8086, 0x1592, "vfio-pci", true, true};
  EXPECT_THAT(prepared(without, kDebian12),
              AllOf(HasSubstr("needs the file /lib/firmware/intel/ice/ddp/ice.pkg"),
                    HasSubstr(", allowed: install")));
  for (const char* args : {"0000:00:06.0,safe-mode-support=1", "0000:00:06.0,ddp_pkg_file=/a"}) {
    EXPECT_EQ(prepared(without, kDebian13, args), args);
  }
  EXPECT_EQ(prepared({0x8086, 0x1592, "vfio-pci"}, kDebian12), kIce);
}

TEST(NicCheck, AnE810sPackageIsLookedForWhereItsDriverLooks) {
  machine::Tree tree;
  const std::string sys = tree.roots().sys;
  const std::string firmware = tree.path("lib/firmware");
  tree.add_nic(kIce, "0x8086 0x159b", "vfio-pci", "");
  const auto lacks = [&] { return pci_nic_of(kIce, sys, firmware).lacks_firmware; };
  EXPECT_TRUE(lacks());
  for (const char* file : {"lib/firmware/intel/ice/ddp/ice-1.3.41.0.pkg",
                           "lib/firmware/intel/ice/ddp-comms/ice.pkg"}) {
    tree.write(file, "");
    EXPECT_TRUE(lacks()) << file;
  }
  for (const char* file :
       {"lib/firmware/intel/ice/ddp/ice.pkg", "lib/firmware/updates/intel/ice/ddp/ice.pkg",
        "lib/firmware/intel/ice/ddp/ice.pkg.zst",
        "lib/firmware/intel/ice/ddp/ice-00000000000000ff.pkg", "own/ice.pkg"}) {
    tree.write("sys/module/firmware_class/parameters/path", tree.path("own").native() + "\n");
    tree.write(file, "");
    EXPECT_FALSE(lacks()) << file;
    std::filesystem::remove(tree.path(file));
    EXPECT_TRUE(lacks()) << file;
  }
}

TEST(NicCheck, OnlyIceNeedsAPackage) {
  machine::Tree tree;
  const std::string sys = tree.roots().sys;
  tree.add_nic("0000:00:07.0", "0x8086 0x1572", "vfio-pci", "");  // i40e
  tree.add_nic("0000:00:08.0", "0x15b3 0x1592", "vfio-pci", "");  // not Intel's
  for (const char* nic : {"0000:00:07.0", "0000:00:08.0"}) {
    EXPECT_FALSE(pci_nic_of(nic, sys, tree.path("lib/firmware")).lacks_firmware) << nic;
  }
}

// Its packets had wrong checksums, and those that were sent were not freed.
TEST(NicCheck, AChelsioNicIsRefused) {
  for (const DpdkVersion& version : {kDebian12, kDebian13}) {
    EXPECT_THAT(prepared({0x1425, 0x5401, "vfio-pci"}, version),
                AllOf(HasSubstr("0000:00:06.0: DPDK's driver of Chelsio NICs (cxgbe)"),
                      HasSubstr(", allowed: another NIC")));
  }
}

// The first one freed packets twice when its port stopped, the second one kept what was sent.
TEST(NicCheck, AnFm10kOrAnNfpIsRefused) {
  constexpr uint16_t kFm10kDevices[] = {0x15a4, 0x15a5, 0x15d0, 0x15d5};
  for (const uint16_t device : kFm10kDevices) {
    EXPECT_THAT(prepared({0x8086, device, "vfio-pci"}, kDebian12),
                AllOf(HasSubstr("DPDK's driver of Intel FM10000 NICs (fm10k)"),
                      HasSubstr(", allowed: another NIC")));
  }
  for (const uint16_t vendor : {uint16_t{0x19ee}, uint16_t{0x1da8}}) {
    EXPECT_THAT(prepared({vendor, 0x4000, "vfio-pci"}, kDebian13),
                AllOf(HasSubstr("DPDK's driver of Netronome and Corigine NICs (nfp)"),
                      HasSubstr(", allowed: another NIC")));
  }
  EXPECT_EQ(prepared({0x8086, 0x1572, "vfio-pci"}, kDebian12), "0000:00:06.0") << "i40e";
}

TEST(NicCheck, GvnicNeedsAVersionThatSendsEverything) {
  for (const DpdkVersion& version : {kDebian12, kUbuntu24, DpdkVersion{24, 11, 3},
                                     DpdkVersion{25, 3, 0}, DpdkVersion{25, 7, 1}}) {
    EXPECT_THAT(prepared(gvnic(), version), HasSubstr("gVNIC needs DPDK 24.11.4 or later"));
  }
  for (const DpdkVersion& version : {kDebian13, DpdkVersion{24, 11, 6}, DpdkVersion{25, 11, 0}}) {
    EXPECT_EQ(prepared(gvnic(), version), "0000:00:06.0");
  }
}

TEST(NicCheck, BifurcatedNicsStayWithTheirKernelDriver) {
  EXPECT_EQ(prepared({0x15b3, 0x1004, "mlx4_core"}, kDebian12), "0000:00:06.0");
  EXPECT_EQ(prepared({0x15b3, 0x101e, "vfio-pci"}, kDebian12),
            "0000:00:06.0: stays with its kernel driver (mlx), which DPDK's needs, and is bound to "
            "vfio-pci, allowed: lyre nic unbind 0000:00:06.0");
  const std::string mana = "7870:00:00.0,mac=00:0d:3a:00:00:01";
  EXPECT_EQ(prepared({0x1414, 0x00ba, "mana"}, kDebian13, mana), mana);
  EXPECT_THAT(prepared({0x1414, 0x00ba, ""}, kDebian13, mana), HasSubstr("bound to nothing"));
}

// Small packets were freed before larger ones that the NIC had still to read.
TEST(NicCheck, Mlx5CopiesNoPacketsIntoItsDescriptors) {
  const PciNic mlx5{0x15b3, 0x101e, "mlx5_core"};
  EXPECT_EQ(prepared(mlx5, kDebian12), "0000:00:06.0,txq_inline_max=0");
  EXPECT_EQ(prepared(mlx5, kDebian12, "0000:00:06.0,txq_inline_max=0,a=b"),
            "0000:00:06.0,txq_inline_max=0,a=b");
  // With the last one clients were lent bytes that were none of the packet's.
  for (const char* option : {"txq_inline", "txq_inline_min", "txq_inline_max", "mprq_en"}) {
    EXPECT_EQ(prepared(mlx5, kDebian13, std::string("0000:00:06.0,") + option + "=128"),
              std::string("0000:00:06.0: ") + option + " is '128', allowed: 0, or leave it out");
  }
}

// Clients were lent bytes that were none of the packet's.
TEST(NicCheck, NetvscReceivesIntoPacketMemory) {
  EXPECT_TRUE(check_nic("vmbus:1,rx_extmbuf_enable=0,latency=20", kDebian13).ok());
  EXPECT_EQ(check_nic("vmbus:1,rx_extmbuf_enable=1", kDebian13).error().text,
            "vmbus:1: rx_extmbuf_enable is '1', allowed: 0, or leave it out");
}

TEST(NicCheck, ANicOfAManaFunctionIsNamedByItsAddress) {
  EXPECT_EQ(
      prepared({0x1414, 0x00ba, "mana"}, kDebian13),
      "0000:00:06.0: a MANA function has a port for each NIC of the machine: add mac= of one");
}

TEST(NicCheck, OtherNicsAreLeftAlone) {
  EXPECT_EQ(prepared({0x1af4, 0x1041, "uio_pci_generic"}, kDebian12, "0000:00:06.0,a=b"),
            "0000:00:06.0,a=b");
  EXPECT_EQ(prepared({}, kDebian12), "0000:00:06.0");
}

TEST(NicCheck, ADeviceIsCheckedAsTheKernelShowsIt) {
  machine::Tree tree;
  const std::string sys = tree.roots().sys;
  tree.add_nic("0000:00:06.0", "0x1ae0 0x0042", "vfio-pci", "");
  EXPECT_THAT(check_nic("0000:00:06.0", kDebian12, sys).error().text, HasSubstr("gVNIC needs"));
  EXPECT_TRUE(check_nic("0000:00:06.0", kDebian13, sys).ok());
  for (const char* device :
       {"0000:00:07.0", "net_memif0,role=server", "vmbus:6045bd7a-8d7c-6045-bd7a-8d7c6045bd7a"}) {
    EXPECT_TRUE(check_nic(device, kDebian12, sys).ok()) << device;
  }
}

/// A MANA function, and whether DPDK has its driver in "drivers".
struct ManaMachine {
  explicit ManaMachine(bool has_its_driver) {
    tree.add_nic("7870:00:00.0", "0x1414 0x00ba", "mana", "eth1");
    tree.write("sys/class/net/eth1/address", "00:0d:3a:00:00:01\n");
    tree.add_nic("b0a1:00:02.0", "0x15b3 0x101a", "mlx5_core", "eth2");
    tree.write("sys/class/net/eth2/address", "00:0d:3a:00:00:02\n");
    tree.write("drivers/librte_net_mlx5.so.23", "");
    if (has_its_driver) tree.write("drivers/librte_net_mana.so.25.0", "");
  }
  machine::Tree tree;
  const std::string sys = tree.roots().sys;
  const std::string drivers = tree.path("drivers");
};

// `lyred --check` called it right, and the daemon did not start.
TEST(NicCheck, AManaPortNeedsADriverOfDpdk) {
  const std::string device = "7870:00:00.0,mac=00:0d:3a:00:00:01";
  const ManaMachine with_driver(true);
  EXPECT_TRUE(check_nic(device, kDebian13, with_driver.sys, with_driver.drivers).ok());
  const ManaMachine without(false);
  EXPECT_EQ(check_nic(device, kDebian12, without.sys, without.drivers).error().text,
            "7870:00:00.0: is a MANA function, and DPDK 22.11.11 has no driver of it here, "
            "allowed: lyred of Debian 13, or its image");
  EXPECT_TRUE(check_nic("b0a1:00:02.0", kDebian12, without.sys, without.drivers).ok());
}

TEST(NicCheck, ANicOfTheVmbusWithoutADriverOfItsFunctionGoesThroughTheHost) {
  const ManaMachine without(false);
  const auto why = [](const std::string& device, const ManaMachine& machine) {
    return why_on_host_path(device, kDebian12, machine.sys, machine.drivers);
  };
  EXPECT_EQ(why("vmbus:1,mac=00:0d:3a:00:00:01", without), lacks_mana_driver(kDebian12));
  EXPECT_EQ(why("vmbus:1,mac=00:0d:3a:00:00:01", ManaMachine(true)), "");
  for (const char* device :
       {"vmbus:1", "vmbus:1,mac=00:0d:3a:00:00:02", "vmbus:1,mac=00:0d:3a:ff:ff:ff",
        "7870:00:00.0,mac=00:0d:3a:00:00:01", "net_tap0,mac=00:0d:3a:00:00:01"}) {
    EXPECT_EQ(why(device, without), "") << device;
  }
}

TEST(NicCheck, ThisLibraryHasAVersion) { EXPECT_GE(dpdk_version(), DpdkVersion({22, 11, 0})); }

}  // namespace
}  // namespace lyre::io::dpdk
