#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <initializer_list>
#include <string>

#include "machine/default_driver.h"
#include "machine/files.h"
#include "machine/local_addresses.h"
#include "machine/memory.h"
#include "machine/nics.h"
#include "machine/remote_logins.h"
#include "tests/unit/machine/tree.h"

namespace lyre::machine {
namespace {

TEST(Nics, AreTheEthernetDevicesOfTheBus) {
  Tree tree;
  tree.add_nic("0000:00:05.0", "0x1d0f 0xec20", "ena", "eth1");
  tree.add_nic("0000:00:06.0", "0x1af4 0x1041", "vfio-pci", "");
  tree.write("sys/bus/pci/devices/0000:00:06.0/driver_override", "vfio-pci\n");
  tree.link("sys/bus/pci/devices/0000:00:06.0/iommu_group", "sys/kernel/iommu_groups/3");
  tree.write("sys/bus/pci/devices/0000:00:07.0/class", "0x010000\n");  // a disk
  const auto nics = pci_nics(tree.roots());
  ASSERT_EQ(nics.size(), 2u);
  EXPECT_EQ(nics[0].address, "0000:00:05.0");
  EXPECT_EQ(nics[0].vendor, 0x1d0f);
  EXPECT_EQ(nics[0].device, 0xec20);
  EXPECT_EQ(nics[0].driver, "ena");
  EXPECT_EQ(nics[0].override_driver, "");
  EXPECT_EQ(nics[0].interfaces, std::vector<std::string>{"eth1"});
  EXPECT_EQ(nics[0].numa_node, 1);
  EXPECT_FALSE(nics[0].has_iommu);
  EXPECT_EQ(nics[1].driver, "vfio-pci");
  EXPECT_EQ(nics[1].override_driver, "vfio-pci");
  EXPECT_EQ(nics[1].boot_driver, "") << "driver_override ends with the boot";
  tree.write("etc/driverctl.d/pci-0000:00:06.0", "vfio-pci\n");
  EXPECT_EQ(pci_nics(tree.roots()).at(1).boot_driver, "vfio-pci");
  EXPECT_TRUE(nics[1].interfaces.empty());
  EXPECT_TRUE(nics[1].has_iommu);
}

TEST(Nics, OfVirtioHaveTheirInterfaceBelowTheChild) {
  Tree tree;
  tree.add_nic("0000:00:03.0", "0x1af4 0x1000", "virtio-pci", "");
  tree.write("sys/bus/pci/devices/0000:00:03.0/virtio2/net/eth0/mtu", "1500\n");
  EXPECT_EQ(pci_nics(tree.roots()).at(0).interfaces, std::vector<std::string>{"eth0"});
}

/// The features that the kernel's driver and the host agreed on, one character for each bit.
std::string agreed_features(std::initializer_list<size_t> bits) {
  std::string text(64, '0');
  for (const size_t bit : bits) text[bit] = '1';
  return text + "\n";
}

// On vfio-pci its host took addresses of the process for physical ones, marked the NIC as broken,
// and lyred waited for its answer for ever.
TEST(Nics, OfVirtioWithoutThePlatformsAddressesBypassTheIommu) {
  constexpr size_t kMac = 5;
  constexpr size_t kVersion1 = 32;
  constexpr size_t kAccessPlatform = 33;
  Tree tree;
  tree.add_nic("0000:00:03.0", "0x1af4 0x1041", "virtio-pci", "");
  const std::string folder = "sys/bus/pci/devices/0000:00:03.0/";
  const auto look = [&](const std::string& features) {
    tree.write(folder + "virtio2/features", features);
    return pci_nics(tree.roots()).at(0);
  };
  EXPECT_FALSE(look(agreed_features({kMac})).bypasses_iommu) << "there is no IOMMU";
  tree.link(folder + "iommu_group", "sys/kernel/iommu_groups/3");
  for (const auto& features : {agreed_features({kMac, kVersion1}), agreed_features({kMac})}) {
    const Nic nic = look(features);
    EXPECT_TRUE(nic.bypasses_iommu);
    EXPECT_FALSE(nic.has_iommu);
    EXPECT_EQ(default_driver(nic).driver, "uio_pci_generic");
    EXPECT_NE(why_unsuitable(nic, "vfio-pci").find("iommu_platform=on"), std::string::npos);
    EXPECT_EQ(why_unsuitable(nic, "uio_pci_generic"), "");
  }
  for (const std::string& features :
       {agreed_features({kVersion1, kAccessPlatform}), agreed_features({}), std::string()}) {
    const Nic nic = look(features);
    EXPECT_FALSE(nic.bypasses_iommu) << features << "none are known without a driver";
    EXPECT_EQ(default_driver(nic).driver, "vfio-pci") << features;
    EXPECT_EQ(why_unsuitable(nic, "vfio-pci"), "");
  }
}

// VFIO makes the group when the NIC is bound to it.
TEST(Nics, InNoIommuModeAreBehindNone) {
  Tree tree;
  tree.add_nic("0000:00:05.0", "0x1d0f 0xec20", "vfio-pci", "");
  tree.write("sys/bus/pci/devices/0000:00:05.0/iommu_group/name", "vfio-noiommu\n");
  tree.write("sys/kernel/iommu_groups/0/name", "vfio-noiommu\n");
  EXPECT_FALSE(pci_nics(tree.roots()).at(0).has_iommu);
  EXPECT_EQ(iommu_group_count(tree.roots()), 0u);
  tree.write("sys/kernel/iommu_groups/1/type", "DMA\n");
  EXPECT_EQ(iommu_group_count(tree.roots()), 1u);
}

// sudo takes SSH_CONNECTION away.
TEST(SshConnection, IsThatOfTheNearestAncestorThatHasIt) {
  Tree tree;
  tree.write("proc/self/environ", std::string("SUDO_USER=u\0PATH=/bin\0", 22));
  tree.write("proc/self/status", "Name:\tlyre\nPPid:\t20\n");
  tree.write("proc/20/status", "Name:\tsudo\nPPid:\t10\n");
  tree.write("proc/10/status", "Name:\tbash\nPPid:\t1\n");
  tree.write("proc/1/status", "Name:\tsystemd\nPPid:\t0\n");
  EXPECT_EQ(ssh_connection(tree.roots()), "");
  tree.write("proc/10/environ",
             std::string("A=b\0SSH_CONNECTION=10.0.0.9 4000 10.0.0.1 2222\0", 47));
  EXPECT_EQ(ssh_connection(tree.roots()), "10.0.0.9 4000 10.0.0.1 2222");
}

TEST(Nics, AreNoneWithoutABus) { EXPECT_TRUE(pci_nics({"/nonexistent", "/nonexistent"}).empty()); }

TEST(DefaultDriver, FollowsTheIommuAndTheVendor) {
  EXPECT_EQ(default_driver({.vendor = 0x1d0f, .has_iommu = true}).driver, "vfio-pci");
  EXPECT_EQ(default_driver({.vendor = 0x8086}).driver, "uio_pci_generic");
  EXPECT_EQ(default_driver({.vendor = 0x1d0f}).driver, "igb_uio");
  EXPECT_EQ(default_driver({.vendor = 0x15b3, .has_iommu = true}).driver, "");
  EXPECT_EQ(default_driver({.vendor = 0x1414, .device = 0x00ba}).driver, "");
}

TEST(DefaultDriver, GivesAnIntelVirtualFunctionItsInterrupt) {
  constexpr uint16_t kDevices[] = {0x154c, 0x1571, 0x1889, 0x37cd, 0x374d};
  for (const uint16_t device : kDevices) {
    const Nic nic{.vendor = 0x8086, .device = device};
    EXPECT_EQ(default_driver(nic).driver, "igb_uio");
    const bool may_poll = device == 0x154c || device == 0x1571;
    const std::string why = why_unsuitable(nic, "uio_pci_generic");
    EXPECT_TRUE(may_poll ? why.empty() : why.ends_with("allowed: igb_uio")) << why;
    EXPECT_EQ(why_unsuitable(nic, "igb_uio"), "");
    EXPECT_EQ(why_unsuitable(nic, "vfio-pci"), "");
  }
  const Nic behind_iommu{.vendor = 0x8086, .device = 0x1889, .has_iommu = true};
  EXPECT_EQ(default_driver(behind_iommu).driver, "vfio-pci");
  EXPECT_TRUE(why_unsuitable(behind_iommu, "uio_pci_generic").ends_with("allowed: vfio-pci"));
  EXPECT_EQ(why_unsuitable({.vendor = 0x8086, .device = 0x1572}, "uio_pci_generic"), "");
  EXPECT_EQ(why_unsuitable({.vendor = 0x1d0f, .device = 0x1889}, "uio_pci_generic"), "");
}

// The headers of the running kernel alone left the next one without the module.
TEST(DefaultDriver, ComesWithTheHeadersOfLaterKernelsToo) {
  const auto packages = [](const std::string& release) {
    const std::string remedy = remedy_for("igb_uio", release);
    return remedy.substr(0, remedy.find(" &&"));
  };
  const std::string running = "apt install linux-headers-$(uname -r) ";
  const std::string module = "dpdk-kmods-dkms";
  EXPECT_EQ(packages("6.1.0-57-cloud-amd64"), running + "linux-headers-cloud-amd64 " + module);
  EXPECT_EQ(packages("6.1.0-57-amd64"), running + "linux-headers-amd64 " + module);
  EXPECT_EQ(packages("6.1.0-57-arm64"), running + "linux-headers-arm64 " + module);
  EXPECT_EQ(packages("6.12.43+deb13-amd64"), running + "linux-headers-amd64 " + module);
  EXPECT_EQ(packages("6.1.0-0.deb11.21-amd64"), running + "linux-headers-amd64 " + module);
  EXPECT_EQ(packages("6.8.0-1021-aws"), running + "linux-headers-aws " + module);
  EXPECT_EQ(packages("6.8.0-45-generic-64k"), running + "linux-headers-generic-64k " + module);
  for (const char* own : {"6.12.0", "6.12.0-", "6.12.0-57", "6.12.0-rc3+", "6.12.0-Mine"}) {
    EXPECT_EQ(packages(own), running + module) << own;
  }
  EXPECT_EQ(remedy_for("vfio-pci", "6.1.0-57-amd64"), "");
}

TEST(HugepagePools, AreThoseOfTheKernel) {
  Tree tree;
  tree.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "192\n");
  tree.write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "150\n");
  tree.write("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n");
  const auto pools = hugepage_pools(tree.roots());
  ASSERT_EQ(pools.size(), 2u);
  EXPECT_EQ(pools[0].page_kib, 1048576u);
  EXPECT_EQ(pools[0].total, 0u);
  EXPECT_EQ(pools[1].page_kib, 2048u);
  EXPECT_EQ(pools[1].total, 192u);
  EXPECT_EQ(pools[1].free_mib(), 300u);
}

TEST(LocalAddresses, AreThoseOfTheKernelsInterfaces) {
  Tree tree;
  tree.write("proc/net/fib_trie",
             "Main:\n"
             "  +-- 0.0.0.0/0 3 0 5\n"
             "     |-- 0.0.0.0\n"
             "        /0 universe UNICAST\n"
             "     |-- 10.9.0.1\n"
             "        /32 host LOCAL\n"
             "     |-- 10.9.0.255\n"
             "        /32 link BROADCAST\n");
  tree.write("proc/net/if_inet6", "fd000009000000000000000000000001 02 40 00 80     eth0\n");
  const auto found = local_addresses(tree.roots());
  EXPECT_EQ(found, (std::set<std::string>{"10.9.0.1", "fd00:9::1"}));
}

TEST(RegularFile, IsReadUpToTheLimit) {
  Tree tree;
  tree.write("file", std::string("a\0b\n", 4));
  EXPECT_EQ(regular_file(tree.path("file"), 100), std::string("a\0b\n", 4));
  EXPECT_EQ(regular_file(tree.path("file"), 3), std::string("a\0b", 3));
  std::filesystem::create_symlink("file", tree.path("link"));
  EXPECT_EQ(regular_file(tree.path("link"), 1), "a");
  std::filesystem::resize_file(tree.path("file"), uint64_t{1} << 40);
  EXPECT_EQ(regular_file(tree.path("file"), 20000).size(), 20000u);
  EXPECT_FALSE(regular_file("/proc/self/status", 20000).empty()) << "the kernel says 0 bytes";
}

TEST(RegularFile, IsNoFifoDeviceOrFolder) {
  Tree tree;
  tree.write("file", "");
  ASSERT_EQ(::mkfifo(tree.path("fifo").c_str(), 0666), 0);
  for (const std::string& path : {tree.path("fifo").string(), tree.path("none").string(),
                                  std::string("/dev/zero"), std::string("/"), std::string()}) {
    EXPECT_EQ(regular_file(path, 10), "") << path;
  }
}

}  // namespace
}  // namespace lyre::machine
