#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/machine/tree.h"
#include "tests/unit/tools/expect_finding.h"
#include "tools/lyre/configured.h"
#include "tools/lyre/doctor/daemon_checks.h"
#include "tools/lyre/doctor/machine_checks.h"

namespace lyre::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class DoctorHugepagesTest : public ::testing::Test {
 protected:
  std::vector<NicState> nics() {
    return nic_states(tree_.roots(), machine::NicGuard(tree_.roots()));
  }
  void add_nic_without_iommu() {
    tree_.add_nic("0000:00:05.0", "0x1af4 0x1000", "virtio-pci", "eth1");
  }
  void set_hugepages(int total, int free) {
    const std::string pool = "sys/kernel/mm/hugepages/hugepages-2048kB/";
    tree_.write(pool + "nr_hugepages", std::to_string(total) + "\n");
    tree_.write(pool + "free_hugepages", std::to_string(free) + "\n");
  }

  machine::Tree tree_;
};

TEST_F(DoctorHugepagesTest, Hugepages) {
  set_hugepages(0, 0);
  expect(check_hugepages(tree_.roots(), nics(), 384), Verdict::kNote, "0 MiB reserved");
  add_nic_without_iommu();
  expect(check_hugepages(tree_.roots(), nics(), 384), Verdict::kProblem, "0 MiB reserved");
  set_hugepages(191, 191);
  expect(check_hugepages(tree_.roots(), nics(), 384), Verdict::kNote, "382 MiB reserved");
  set_hugepages(192, 192);
  expect(check_hugepages(tree_.roots(), nics(), 384), Verdict::kFine, "384 MiB of them free");
}

TEST_F(DoctorHugepagesTest, HugepagesForAllWorkers) {
  EXPECT_EQ(hugepages_mib(1, {}), 384u);
  EXPECT_EQ(hugepages_mib(4, {}), 384u);
  EXPECT_EQ(hugepages_mib(8, {}), 8 * 68u + 96);
  EXPECT_EQ(hugepages_mib(4, {.rx_slots = 8192, .mtu_bytes = 9001}), 4 * 129u + 96);
  EXPECT_GT(hugepages_mib(1, {.rx_slots = 1 << 18, .mtu_bytes = 1500}), 600u);
  set_hugepages(192, 192);
  const Finding finding = check_hugepages(tree_.roots(), nics(), 600);
  expect(finding, Verdict::kNote, "384 MiB reserved");
  EXPECT_THAT(finding.why, HasSubstr("up to 600 MiB"));
  EXPECT_THAT(finding.mend, StartsWith("echo 300 >"));
}

TEST_F(DoctorHugepagesTest, WhatTheConfigurationNeedsOfHugepages) {
  EXPECT_EQ(workers_in("f: right\nworkers: 12, on cores 2-13; memory of NUMA node 0\n"), 12u);
  EXPECT_EQ(workers_in("lyred: f:2: a: wrong\n"), 1u);
  tree_.write("a.toml",
              "[memory]\nrx_slots = 4096\n[[port]]\nmtu = 9001\n[[port]]\nname = \"b\"\n");
  const ConfiguredPackets packets = configured_packets(tree_.path("a.toml"));
  EXPECT_EQ(packets.rx_slots, 4096u);
  EXPECT_EQ(packets.mtu_bytes, 9001u);
  EXPECT_EQ(configured_packets(tree_.path("none.toml")).mtu_bytes, 1500u);
}

// It has taken them.
TEST_F(DoctorHugepagesTest, HugepagesOfTheDaemonThatRuns) {
  add_nic_without_iommu();
  set_hugepages(192, 0);
  expect(check_hugepages(tree_.roots(), nics(), 384), Verdict::kFine,
         "384 MiB reserved in pages of 2 MiB, 0 MiB of");
  expect(check_hugepages_at_boot(tree_.roots(), ""), Verdict::kNote, "not reserved at boot");
}

TEST_F(DoctorHugepagesTest, HugepagesAtBoot) {
  set_hugepages(0, 0);
  expect(check_hugepages_at_boot(tree_.roots(), ""), Verdict::kFine, "no hugepages");
  set_hugepages(192, 192);
  expect(check_hugepages_at_boot(tree_.roots(), ""), Verdict::kNote, "not reserved at boot");
  expect(check_hugepages_at_boot(tree_.roots(), "vm.nr_hugepages = 192\n"), Verdict::kFine,
         "sysctl");
  expect(
      check_hugepages_at_boot(
          tree_.roots(), "w /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages - - - - 192\n"),
      Verdict::kFine, "tmpfiles");
  tree_.write("proc/cmdline", "quiet hugepages=192\n");
  expect(check_hugepages_at_boot(tree_.roots(), ""), Verdict::kFine, "command line");
}

}  // namespace
}  // namespace lyre::tools
