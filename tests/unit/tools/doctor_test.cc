#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/machine/tree.h"
#include "tests/unit/tools/stats_segment.h"
#include "tools/lyre/child_program.h"
#include "tools/lyre/doctor/daemon_checks.h"
#include "tools/lyre/doctor/machine_checks.h"
#include "tools/lyre/doctor/nccl_checks.h"

namespace lyre::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Every finding that is not fine says why, and what mends it.
void expect(const Finding& finding, Verdict verdict, const std::string& saw) {
  EXPECT_EQ(finding.verdict, verdict) << finding.saw;
  EXPECT_THAT(finding.saw, HasSubstr(saw));
  EXPECT_EQ(finding.why.empty(), verdict == Verdict::kFine);
  EXPECT_EQ(finding.mend.empty(), verdict == Verdict::kFine);
}

class DoctorMachineTest : public ::testing::Test {
 protected:
  std::vector<NicState> nics() {
    return nic_states(tree_.roots(), machine::NicGuard(tree_.roots()));
  }
  void add_nic_without_iommu() {
    tree_.add_nic("0000:00:05.0", "0x1af4 0x1000", "virtio-pci", "eth1");
  }
  void add_nic_with_iommu() {
    tree_.add_nic("0000:00:06.0", "0x8086 0x154c", "i40e", "eth2");
    tree_.link("sys/bus/pci/devices/0000:00:06.0/iommu_group", "sys/kernel/iommu_groups/3");
  }
  void set_hugepages(int total, int free) {
    const std::string pool = "sys/kernel/mm/hugepages/hugepages-2048kB/";
    tree_.write(pool + "nr_hugepages", std::to_string(total) + "\n");
    tree_.write(pool + "free_hugepages", std::to_string(free) + "\n");
  }

  machine::Tree tree_;
};

TEST_F(DoctorMachineTest, Kernel) {
  expect(check_kernel("6.1.0-31-amd64"), Verdict::kFine, "6.1.0-31-amd64");
  expect(check_kernel("5.11.0"), Verdict::kFine, "5.11");
  expect(check_kernel("5.10.0-34-amd64"), Verdict::kProblem, "5.10");
}

TEST_F(DoctorMachineTest, Iommu) {
  expect(check_iommu(tree_.roots(), nics()), Verdict::kFine, "no NIC that needs one");
  add_nic_without_iommu();
  expect(check_iommu(tree_.roots(), nics()), Verdict::kNote, "none");
  add_nic_with_iommu();
  expect(check_iommu(tree_.roots(), nics()), Verdict::kFine, "1 groups");
}

TEST_F(DoctorMachineTest, ModulesThatTheNicsNeed) {
  expect(check_driver_modules(tree_.roots(), nics()), Verdict::kFine, "none loaded");
  add_nic_with_iommu();
  expect(check_driver_modules(tree_.roots(), nics()), Verdict::kNote, "none loaded");
  tree_.write("sys/module/vfio_pci/refcnt", "0\n");
  expect(check_driver_modules(tree_.roots(), nics()), Verdict::kFine, "vfio-pci");
  add_nic_without_iommu();  // for which vfio-pci does not suffice
  const Finding finding = check_driver_modules(tree_.roots(), nics());
  expect(finding, Verdict::kNote, "vfio-pci");
  EXPECT_THAT(finding.mend, StartsWith("modprobe uio_pci_generic"));
  tree_.write("sys/bus/pci/drivers/uio_pci_generic/new_id", "");
  expect(check_driver_modules(tree_.roots(), nics()), Verdict::kFine, "uio_pci_generic");
}

TEST_F(DoctorMachineTest, AnEnaNeedsTheModuleThatSuitsEveryDpdk) {
  tree_.write("sys/bus/pci/drivers/uio_pci_generic/new_id", "");
  tree_.add_nic("0000:00:06.0", "0x1d0f 0xec20", "ena", "eth1");
  const Finding finding = check_driver_modules(tree_.roots(), nics());
  expect(finding, Verdict::kNote, "uio_pci_generic");
  EXPECT_THAT(finding.mend, HasSubstr("modprobe igb_uio wc_activate=1"));
  tree_.write("sys/bus/pci/drivers/igb_uio/new_id", "");
  expect(check_driver_modules(tree_.roots(), nics()), Verdict::kFine, "igb_uio");
}

TEST_F(DoctorMachineTest, Hugepages) {
  set_hugepages(0, 0);
  expect(check_hugepages(tree_.roots(), nics()), Verdict::kNote, "0 MiB reserved");
  add_nic_without_iommu();
  expect(check_hugepages(tree_.roots(), nics()), Verdict::kProblem, "0 MiB reserved");
  set_hugepages(191, 191);
  expect(check_hugepages(tree_.roots(), nics()), Verdict::kNote, "382 MiB reserved");
  set_hugepages(192, 192);
  expect(check_hugepages(tree_.roots(), nics()), Verdict::kFine, "384 MiB of them free");
}

// It has taken them.
TEST_F(DoctorMachineTest, HugepagesOfTheDaemonThatRuns) {
  add_nic_without_iommu();
  set_hugepages(192, 0);
  expect(check_hugepages(tree_.roots(), nics()), Verdict::kFine, "384 MiB reserved, 0 MiB of");
  expect(check_hugepages_at_boot(tree_.roots(), ""), Verdict::kNote, "not reserved at boot");
}

TEST_F(DoctorMachineTest, HugepagesAtBoot) {
  set_hugepages(0, 0);
  expect(check_hugepages_at_boot(tree_.roots(), ""), Verdict::kFine, "no hugepages");
  set_hugepages(192, 192);
  expect(check_hugepages_at_boot(tree_.roots(), ""), Verdict::kNote, "not reserved at boot");
  expect(check_hugepages_at_boot(tree_.roots(), "vm.nr_hugepages = 192\n"), Verdict::kFine,
         "sysctl");
  tree_.write("proc/cmdline", "quiet hugepages=192\n");
  expect(check_hugepages_at_boot(tree_.roots(), ""), Verdict::kFine, "command line");
}

TEST_F(DoctorMachineTest, Cores) {
  tree_.write("sys/devices/system/cpu/online", "0-7\n");
  tree_.write("sys/devices/system/cpu/isolated", "\n");
  expect(check_isolation(tree_.roots()), Verdict::kNote, "0-7 online, none isolated");
  tree_.write("sys/devices/system/cpu/isolated", "6-7\n");
  expect(check_isolation(tree_.roots()), Verdict::kFine, "6-7 isolated");
}

TEST_F(DoctorMachineTest, IoUring) {
  expect(check_io_uring(tree_.roots()), Verdict::kFine, "allowed");
  tree_.write("proc/sys/kernel/io_uring_disabled", "0\n");
  expect(check_io_uring(tree_.roots()), Verdict::kFine, "allowed");
  tree_.write("proc/sys/kernel/io_uring_disabled", "2\n");
  expect(check_io_uring(tree_.roots()), Verdict::kNote, "= 2");
}

TEST_F(DoctorMachineTest, Nics) {
  expect(check_nics(nics()).at(0), Verdict::kNote, "no NIC to spare");
  tree_.add_nic("0000:00:03.0", "0x1af4 0x1000", "virtio-pci", "eth0");
  tree_.write("proc/net/route",
              "Iface Destination Gateway Flags RefCnt Use Metric Mask\n"
              "eth0 00000000 0100000A 0003 0 0 0 00000000\n");
  auto findings = check_nics(nics());
  ASSERT_EQ(findings.size(), 2u);
  expect(findings[0], Verdict::kFine, "eth0, driver virtio-pci, NUMA node 1: carries");
  expect(findings[1], Verdict::kNote, "no NIC to spare");
  add_nic_without_iommu();
  findings = check_nics(nics());
  ASSERT_EQ(findings.size(), 2u);
  expect(findings[1], Verdict::kNote, "0000:00:05.0 eth1, driver virtio-pci");
  EXPECT_THAT(findings[1].mend, StartsWith("lyre nic bind 0000:00:05.0"));
  tree_.add_nic("0000:00:06.0", "0x8086 0x154c", "vfio-pci", "");
  expect(check_nics(nics()).at(2), Verdict::kNote, "driver vfio-pci");  // until the next boot
  tree_.write("sys/bus/pci/devices/0000:00:06.0/driver_override", "vfio-pci\n");
  expect(check_nics(nics()).at(2), Verdict::kFine, "driver vfio-pci");
}

TEST(DoctorConfig, IsWhatTheDaemonSays) {
  const auto right = read_config_check(0, "/etc/lyre/lyred.toml: right\n");
  ASSERT_EQ(right.size(), 1u);
  expect(right[0], Verdict::kFine, "/etc/lyre/lyred.toml: right");
  const auto wrong = read_config_check(2, "lyred: f:2: a: wrong\nlyred: f:3: b: wrong\n");
  ASSERT_EQ(wrong.size(), 2u);
  expect(wrong[0], Verdict::kProblem, "f:2: a: wrong");
  EXPECT_EQ(wrong[1].saw, "f:3: b: wrong");
  expect(read_config_check(std::nullopt, "").at(0), Verdict::kNote, "not installed");
}

TEST(DoctorDaemon, VersionPortsAndChecksums) {
  FakeSegment segment;
  const auto look = [&] {
    return read_snapshot(segment.data(), segment.bytes(), FakeSegment::kNowNs);
  };
  auto findings = check_running(look(), "0.1.0");
  ASSERT_EQ(findings.size(), 2u);
  expect(findings[0], Verdict::kFine, "lyred 0.1.0, pid 4711, this lyre is 0.1.0");
  expect(findings[1], Verdict::kFine, "memif0: net_memif0, link up");
  expect(check_running(look(), "0.2.0").at(0), Verdict::kNote, "this lyre is 0.2.0");

  segment.port().state.store(3);
  expect(check_running(look(), "0.1.0").at(1), Verdict::kProblem, "link away");
  segment.port().state.store(0);
  segment.port().is_link_up.store(0);
  segment.worker(1).drops[static_cast<size_t>(Drop::kTcpBadChecksum)].add(3);
  findings = check_running(look(), "0.1.0");
  ASSERT_EQ(findings.size(), 3u);
  expect(findings[1], Verdict::kProblem, "link down");
  expect(findings[2], Verdict::kNote, "3 segments with a wrong checksum");
  std::strcpy(segment.port().device, "net_af_packet0,iface=veth0");
  findings = check_running(look(), "0.1.0");
  expect(findings[2], Verdict::kProblem, "3 segments with a wrong checksum");
  EXPECT_THAT(findings[2].mend, HasSubstr("ethtool -K INTERFACE tx off"));
}

TEST(DoctorSocket, WhoMayOpenIt) {
  machine::Tree tree;
  EXPECT_TRUE(check_socket(tree.path("none")).empty());
  tree.write("socket", "");
  namespace fs = std::filesystem;
  fs::permissions(tree.path("socket"), fs::perms(0660));
  expect(check_socket(tree.path("socket")).at(0), Verdict::kFine, "and members of ");
  fs::permissions(tree.path("socket"), fs::perms(0600));
  const Finding closed = check_socket(tree.path("socket")).at(0);
  EXPECT_THAT(closed.saw, AllOf(HasSubstr("mode 0600"), Not(HasSubstr("members of"))));
  fs::permissions(tree.path("socket"), fs::perms(0666));
  expect(check_socket(tree.path("socket")).at(0), Verdict::kNote, "mode 0666");
}

TEST(DoctorNccl, SettingsOfTheProcessComeBeforeThoseOfFiles) {
  machine::Tree tree;
  tree.write("nccl.conf", "# of the site\nNCCL_NET=Socket\nNCCL_NET_PLUGIN=lyre\nOTHER=1\n");
  const char* const environment[] = {"NCCL_NET=Lyre", "PATH=/bin", nullptr};
  const Settings settings = nccl_settings(environment, {"/nonexistent", tree.path("nccl.conf")});
  EXPECT_EQ(settings, (Settings{{"NCCL_NET", "Lyre"}, {"NCCL_NET_PLUGIN", "lyre"}}));
}

TEST(DoctorNccl, WouldThePluginLoad) {
  const LoadLibrary none = [](const std::string& name) { return name + ": not found"; };
  const LoadLibrary short_name = [](const std::string& name) {
    return name == "libnccl-net-lyre.so" ? "" : name + ": not found";
  };
  auto findings = check_nccl({}, none, "2.36");
  ASSERT_EQ(findings.size(), 3u);
  expect(findings[0], Verdict::kNote, "NCCL_NET_PLUGIN is not set");
  expect(findings[1], Verdict::kNote, "NCCL_NET is not set");
  expect(findings[2], Verdict::kFine, "2.36");
  findings = check_nccl({{"NCCL_NET_PLUGIN", "lyre"}, {"NCCL_NET", "lyre"}}, short_name, "2.27");
  expect(findings[0], Verdict::kFine, "loads");
  expect(findings[1], Verdict::kFine, "NCCL_NET=lyre");
  expect(findings[2], Verdict::kProblem, "2.27");
  findings = check_nccl({{"NCCL_NET_PLUGIN", "lyre"}, {"NCCL_NET", "Socket"}}, none, "2.28");
  expect(findings[0], Verdict::kProblem, "libnccl-net-lyre.so: not found");
  expect(findings[1], Verdict::kProblem, "NCCL_NET=Socket");
}

TEST(DoctorNccl, OpensALibraryAsNcclDoes) {
  EXPECT_THAT(load_plugin("libc.so.6"), HasSubstr("has no ncclNetPlugin_v8"));
  EXPECT_THAT(load_plugin("/nonexistent/plugin.so"), HasSubstr("cannot open"));
}

TEST(DoctorReport, CountsAndExplains) {
  const std::vector<Finding> findings{fine("kernel", "Linux 6.1"),
                                      problem("nic", "none", "no NIC", "attach one")};
  EXPECT_EQ(findings_text(findings),
            "ok       kernel        Linux 6.1\n"
            "PROBLEM  nic           none\n"
            "                       why: no NIC\n"
            "                       do:  attach one\n"
            "\n1 problem, 0 notes\n");
  const auto json = nlohmann::json::parse(findings_json(findings));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["problems"], 1);
  EXPECT_EQ(json["checks"][1]["mend"], "attach one");
  EXPECT_TRUE(has_problem(findings));
  EXPECT_FALSE(has_problem({findings[0]}));
}

TEST(ChildProgram, GivesOutputAndStatus) {
  std::string output;
  EXPECT_EQ(run_program({"sh", "-c", "echo out; echo err >&2; exit 3"}, output), 3);
  EXPECT_EQ(output, "out\nerr\n");
  EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}, output), 128 + 9);
  EXPECT_EQ(run_program({"lyre-no-such-program"}, output), std::nullopt);
}

}  // namespace
}  // namespace lyre::tools
