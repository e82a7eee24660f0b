#include "stack/io/dpdk/eal_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "tests/unit/machine/tree.h"

namespace lyre::io::dpdk {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr DpdkVersion kVersion{24, 11, 4};
constexpr char kNetvsc[] = "6045bd7a-8d7c-6045-bd7a-8d7c6045bd7a";
constexpr char kOtherNetvsc[] = "6045bd7a-0000-6045-bd7a-00006045bd7a";
constexpr char kMana[] = "7870:00:00.0";
constexpr char kMlx5[] = "b0a1:00:02.0";
constexpr char kOpenedMlx5[] = "b0a1:00:02.0,txq_inline_max=0";

/// A machine of Azure: its NICs are on the VMbus. Two of them share a MANA function, one has an
/// mlx5 function.
class EalArguments : public ::testing::Test {
 protected:
  EalArguments() {
    add_netvsc(kNetvsc, "uio_hv_generic");
    add_netvsc(kOtherNetvsc, "uio_hv_generic");
    add_function(kMana, "0x1414 0x00ba", "mana",
                 {{"eth1", "00:0d:3a:00:00:01"}, {"eth2", "00:0d:3a:00:00:02"}});
    add_function(kMlx5, "0x15b3 0x101a", "mlx5_core", {{"eth3", "00:0d:3a:00:00:03"}});
    // The NIC of the VMbus that the kernel keeps has its function's address.
    tree_.write("sys/class/net/eth0/address", "00:0d:3a:00:00:03\n");
    tree_.link("sys/class/net/eth0/device", "sys/bus/vmbus/devices/kept");
  }
  void add_netvsc(const std::string& id, const std::string& driver) {
    tree_.link("sys/bus/vmbus/devices/" + id + "/driver", "sys/bus/vmbus/drivers/" + driver);
  }
  void add_function(const std::string& address, const std::string& ids, const std::string& driver,
                    const std::vector<std::pair<std::string, std::string>>& interfaces) {
    tree_.add_nic(address, ids, driver, "");
    const std::string real = "sys/devices/pci" + address.substr(0, 7) + "/" + address;
    for (const auto& [name, mac] : interfaces) {
      tree_.write("sys/class/net/" + name + "/address", mac + "\n");
      tree_.link("sys/class/net/" + name + "/device", real);
    }
  }
  /// On vfio-pci, in an IOMMU group of this name.
  void add_vfio(const std::string& address, const std::string& group) {
    add_function(address, "0x8086 0x1572", "vfio-pci", {});
    tree_.link("sys/bus/pci/devices/" + address + "/iommu_group",
               "sys/kernel/iommu_groups/" + address);
    tree_.write("sys/kernel/iommu_groups/" + address + "/name", group + "\n");
  }
  /// Of all of these together.
  std::string refusal(const std::vector<std::string>& devices) const {
    AllowedNics nics = this->nics();
    for (const std::string& device : devices) EXPECT_TRUE(nics.add(device).ok()) << device;
    const Status fit = nics.check_addressing();
    return fit.ok() ? "" : fit.error().text;
  }
  AllowedNics nics() const { return AllowedNics(kVersion, tree_.roots().sys); }
  /// The words for EAL, or the refusal.
  std::vector<std::string> allowed(const std::vector<std::string>& devices) const {
    AllowedNics nics = this->nics();
    for (const std::string& device : devices) {
      if (const Status added = nics.add(device); !added.ok()) return {added.error().text};
    }
    return nics.words();
  }
  std::vector<std::string> line(const std::vector<std::string>& devices, bool has_hugepages,
                                std::optional<NicOwner> owner = {}) const {
    AllowedNics nics = this->nics();
    for (const std::string& device : devices) EXPECT_TRUE(nics.add(device).ok()) << device;
    return eal_arguments({.file_prefix = "a", .owner = owner}, nics, has_hugepages, "0@(0)", 128);
  }
  static std::string vmbus(const std::string& rest, const char* id = kNetvsc) {
    return "vmbus:" + std::string(id) + rest;
  }

  machine::Tree tree_;
};

TEST_F(EalArguments, VirtualDevicesNeedNoBus) {
  EXPECT_THAT(line({}, true),
              ElementsAre("lyre", "--lcores=0@(0)", "--no-telemetry", "--file-prefix=a",
                          "--in-memory", "--no-pci", "--iova-mode=va", "--log-level=*:error"));
  EXPECT_THAT(line({}, false),
              AllOf(Contains("--no-huge"), Contains("128"), Not(Contains("--in-memory"))));
}

// DPDK failed to start, which it does not on ordinary pages.
TEST_F(EalArguments, TooFewHugepagesAreTakenOnlyWhereTheyAreRequired) {
  constexpr uint32_t kHeapMiB = 128;
  const auto takes = [&](Hugepages mode, const std::vector<std::string>& devices, uint64_t free_mib,
                         std::optional<NicOwner> owner = {}) {
    AllowedNics nics = this->nics();
    for (const std::string& device : devices) EXPECT_TRUE(nics.add(device).ok()) << device;
    return takes_hugepages({.hugepages = mode, .owner = owner}, nics, free_mib, kHeapMiB);
  };
  EXPECT_FALSE(takes(Hugepages::kAuto, {}, 2));
  EXPECT_FALSE(takes(Hugepages::kAuto, {kMlx5}, kHeapMiB - 2));
  EXPECT_TRUE(takes(Hugepages::kAuto, {kMlx5}, kHeapMiB));
  EXPECT_TRUE(takes(Hugepages::kYes, {}, 2));
  EXPECT_FALSE(takes(Hugepages::kNo, {}, kHeapMiB));
  add_function("0000:00:08.0", "0x8086 0x1572", "uio_pci_generic", {});
  EXPECT_TRUE(takes(Hugepages::kAuto, {"0000:00:08.0"}, 2));
  EXPECT_TRUE(takes(Hugepages::kAuto, {vmbus("")}, 2));
  EXPECT_TRUE(takes(Hugepages::kAuto, {kMlx5}, 2, NicOwner{true}));
  EXPECT_FALSE(takes(Hugepages::kAuto, {"0000:00:08.0"}, 0));
}

TEST_F(EalArguments, OnlyNamedNicsAreOpened) {
  EXPECT_THAT(line({"0000:00:06.0,a=1"}, true),
              ElementsAre("lyre", "--lcores=0@(0)", "--no-telemetry", "--file-prefix=a",
                          "--in-memory", "-a", "0000:00:06.0,a=1", "--log-level=*:error"));
}

// Root on a machine without an IOMMU would get physical addresses, by which mlx5 is not told of
// client memory.
TEST_F(EalArguments, NicsThatFetchByVirtualAddressesGetThem) {
  EXPECT_THAT(line({kMlx5}, true), Contains("--iova-mode=va"));
  EXPECT_THAT(line({"7870:00:00.0,mac=00:0d:3a:00:00:01"}, true), Contains("--iova-mode=va"));
  add_vfio("0000:00:07.0", "the IOMMU's");
  EXPECT_THAT(line({"0000:00:07.0"}, true), Contains("--iova-mode=va"));
  EXPECT_THAT(line({"0000:00:07.0", kMlx5}, true), Contains("--iova-mode=va"));
}

TEST_F(EalArguments, NicsThatFetchByPhysicalAddressesAreLeftToDpdk) {
  add_function("0000:00:08.0", "0x8086 0x1572", "uio_pci_generic", {});
  add_function("0000:00:09.0", "0x1d0f 0xec20", "igb_uio", {});
  add_vfio("0000:00:0a.0", "vfio-noiommu");
  for (const char* nic : {"0000:00:08.0", "0000:00:09.0", "0000:00:0a.0"}) {
    EXPECT_THAT(line({nic}, true), Not(Contains(HasSubstr("--iova-mode")))) << nic;
    EXPECT_THAT(line({nic, "7870:00:00.0,mac=00:0d:3a:00:00:01"}, true),
                Not(Contains(HasSubstr("--iova-mode"))))
        << "MANA can do with either";
    EXPECT_EQ(refusal({nic}), "");
  }
}

/// The NIC that is not served by the kind of address that was chosen would send nothing.
TEST_F(EalArguments, NicsThatFetchByDifferentAddressesAreRefused) {
  add_function("0000:00:08.0", "0x8086 0x1572", "uio_pci_generic", {});
  add_vfio("0000:00:07.0", "the IOMMU's");
  EXPECT_EQ(refusal({"0000:00:08.0", kMlx5}),
            "b0a1:00:02.0 and 0000:00:08.0: the first fetches memory by virtual addresses and the "
            "second by physical ones, and a daemon has one kind: give each a daemon of its own");
  EXPECT_THAT(refusal({"0000:00:07.0", "0000:00:08.0"}),
              HasSubstr("0000:00:07.0 and 0000:00:08.0"));
  EXPECT_THAT(refusal({"0000:00:07.0", vmbus("")}), HasSubstr("0000:00:07.0 and vmbus:"));
  EXPECT_EQ(refusal({"0000:00:07.0", kMlx5}), "");
  EXPECT_EQ(refusal({vmbus(",mac=00:0d:3a:00:00:03")}), "") << "the function of that NIC";
}

TEST_F(EalArguments, AnIommuThatDpdkWouldNotUseIsRefused) {
  add_vfio("0000:00:07.0", "the IOMMU's");
  const char kMode[] = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
  tree_.write(kMode, "Y\n");
  EXPECT_THAT(refusal({"0000:00:07.0"}), HasSubstr("echo N > /sys/module/vfio"));
  EXPECT_THAT(refusal({kMlx5, "0000:00:07.0"}), HasSubstr("0000:00:07.0: is behind an IOMMU"))
      << "whichever comes first";
  EXPECT_EQ(refusal({kMlx5}), "");
  tree_.write(kMode, "N\n");
  EXPECT_EQ(refusal({"0000:00:07.0"}), "");
}

// An allow list of nothing real, unlike --no-pci, does not keep a NIC from being opened later.
TEST_F(EalArguments, ANicThatAnotherProcessHasIsNotOpenedAtTheStart) {
  for (const bool is_physical : {false, true}) {
    EXPECT_THAT(
        line({"0000:00:06.0,a=1"}, true, NicOwner{is_physical}),
        ElementsAre("lyre", "--lcores=0@(0)", "--no-telemetry", "--file-prefix=a", "--in-memory",
                    "-a", "ffffffff:ff:1f.7", is_physical ? "--iova-mode=pa" : "--iova-mode=va",
                    "--log-level=*:error"));
  }
  EXPECT_EQ(line({}, true, NicOwner{}), line({}, true));
}

TEST_F(EalArguments, ANicOfTheVmbusIsOpenedWithItsFunction) {
  EXPECT_THAT(allowed({vmbus(",mac=00:0D:3A:00:00:03,latency=20")}),
              ElementsAre(kOpenedMlx5, vmbus(",latency=20")));
  EXPECT_THAT(allowed({vmbus(",mac=00:0d:3a:00:00:01")}),
              ElementsAre("7870:00:00.0,mac=00:0d:3a:00:00:01", vmbus("")));
}

/// Otherwise the PCI bus would be searched, and the function of the first NIC taken.
TEST_F(EalArguments, WithoutAFunctionThePciBusIsLeftAlone) {
  EXPECT_THAT(line({vmbus("")}, true),
              AllOf(Contains("--no-pci"), Contains(vmbus("")), Contains("--iova-mode=pa")));
  EXPECT_THAT(line({vmbus(",mac=00:0d:3a:00:00:03")}, true),
              AllOf(Not(Contains("--no-pci")), Contains(kOpenedMlx5), Contains("--iova-mode=pa")));
}

TEST_F(EalArguments, AManaPortNeedsItsDriver) {
  const std::string folder = tree_.path("drivers");
  AllowedNics with_mana = nics();
  ASSERT_TRUE(with_mana.add("7870:00:00.0,mac=00:0d:3a:00:00:01").ok());
  EXPECT_TRUE(with_mana.check_drivers(folder).ok()) << "drivers are part of the program";
  tree_.write("drivers/librte_net_mlx5.so.23", "");
  EXPECT_EQ(with_mana.check_drivers(folder).error().text,
            "7870:00:00.0: is a MANA function, and DPDK 24.11.4 has no driver of it here, allowed: "
            "lyred of Debian 13, or its image");
  AllowedNics with_mlx5 = nics();
  ASSERT_TRUE(with_mlx5.add(vmbus(",mac=00:0d:3a:00:00:03")).ok());
  EXPECT_TRUE(with_mlx5.check_drivers(folder).ok());
  tree_.write("drivers/librte_net_mana.so.25.0", "");
  EXPECT_TRUE(with_mana.check_drivers(folder).ok());
}

// A port that runs through the host, slowly, did not start any more.
TEST_F(EalArguments, ANicOfTheVmbusCanDoWithoutTheDriverOfItsFunction) {
  tree_.write("drivers/librte_net_mlx5.so.23", "");
  AllowedNics below_netvsc = nics();
  ASSERT_TRUE(below_netvsc.add(vmbus(",mac=00:0d:3a:00:00:01")).ok());
  EXPECT_TRUE(below_netvsc.check_drivers(tree_.path("drivers")).ok());
  ASSERT_TRUE(below_netvsc.add("7870:00:00.0,mac=00:0d:3a:00:00:02").ok());
  EXPECT_FALSE(below_netvsc.check_drivers(tree_.path("drivers")).ok()) << "a port of its own";
}

TEST_F(EalArguments, NicsThatShareAFunctionAreOneOptionOfIt) {
  EXPECT_THAT(
      allowed({vmbus(",mac=00:0d:3a:00:00:01"), vmbus(",mac=00:0d:3a:00:00:02", kOtherNetvsc)}),
      ElementsAre("7870:00:00.0,mac=00:0d:3a:00:00:01,mac=00:0d:3a:00:00:02", vmbus(""),
                  vmbus("", kOtherNetvsc)));
}

TEST_F(EalArguments, WhatIsWrongWithANicOfTheVmbus) {
  EXPECT_THAT(allowed({"vmbus:6045bd7a-1111-6045-bd7a-11116045bd7a"}),
              ElementsAre("vmbus:6045bd7a-1111-6045-bd7a-11116045bd7a: there is no such device on "
                          "the VMbus"));
  EXPECT_THAT(allowed({vmbus(",mac=00:0d:3a:00:00:09")}),
              ElementsAre(HasSubstr("no PCI function has the MAC address 00:0d:3a:00:00:09")));
  EXPECT_THAT(allowed({vmbus(",rx_extmbuf_enable=1")}),
              ElementsAre(HasSubstr("rx_extmbuf_enable is '1', allowed: 0")));
  std::filesystem::remove(tree_.path(std::string("sys/bus/vmbus/devices/") + kNetvsc + "/driver"));
  add_netvsc(kNetvsc, "hv_netvsc");
  EXPECT_THAT(allowed({vmbus("")}),
              ElementsAre(HasSubstr("is bound to hv_netvsc and must be bound to uio_hv_generic: "
                                    "driverctl -b vmbus set-override 6045bd7a-8d7c")));
}

TEST(DeviceString, ANicHasABus) {
  const DeviceArgs netvsc = DeviceArgs::parse("vmbus:6045BD7A-8d7c-6045-bd7a-8d7c6045bd7a,mac=a");
  EXPECT_TRUE(netvsc.is_vmbus() && netvsc.is_nic());
  EXPECT_FALSE(netvsc.is_pci());
  EXPECT_EQ(netvsc.driver(), "vmbus");
  EXPECT_EQ(netvsc.device_name(), kNetvsc);
  EXPECT_EQ(netvsc.kernel_folder(), std::string("/sys/bus/vmbus/devices/") + kNetvsc);
  const DeviceArgs pci = DeviceArgs::parse("0000:00:06.0,a=b");
  EXPECT_TRUE(pci.is_pci() && pci.is_nic());
  EXPECT_EQ(pci.kernel_folder(), "/sys/bus/pci/devices/0000:00:06.0");
  const DeviceArgs memif = DeviceArgs::parse("net_memif0,role=server");
  EXPECT_FALSE(memif.is_nic());
  EXPECT_EQ(memif.driver(), "net_memif");
}

}  // namespace
}  // namespace lyre::io::dpdk
