#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "machine/default_driver.h"
#include "tests/unit/machine/tree.h"
#include "tests/unit/tools/expect_finding.h"
#include "tests/unit/tools/stats_segment.h"
#include "tools/lyre/doctor/config_checks.h"
#include "tools/lyre/doctor/daemon_checks.h"
#include "tools/lyre/doctor/machine_checks.h"
#include "tools/lyre/doctor/port_checks.h"

namespace lyre::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class DoctorMachineTest : public ::testing::Test {
 protected:
  std::vector<NicState> nics() {
    return nic_states(tree_.roots(), machine::NicGuard(tree_.roots()));
  }
  Finding look_at_modules() {
    return check_driver_modules(tree_.roots(), nics(), tree_.path("modules"));
  }
  void add_nic_without_iommu() {
    tree_.add_nic("0000:00:05.0", "0x1af4 0x1000", "virtio-pci", "eth1");
  }
  void add_nic_with_iommu() {
    tree_.add_nic("0000:00:06.0", "0x8086 0x154c", "i40e", "eth2");
    tree_.link("sys/bus/pci/devices/0000:00:06.0/iommu_group", "sys/kernel/iommu_groups/3");
  }

  machine::Tree tree_;
};

TEST_F(DoctorMachineTest, Kernel) {
  expect(check_kernel("6.1.0-31-amd64", "x86_64"), Verdict::kFine, "6.1.0-31-amd64");
  expect(check_kernel("5.11.0", "x86_64"), Verdict::kFine, "5.11");
  const Finding old = check_kernel("5.10.0-34-amd64", "x86_64");
  expect(old, Verdict::kProblem, "5.10");
  EXPECT_THAT(old.mend, HasSubstr("linux-image-amd64"));
}

// What it told to do was for x86-64.
TEST_F(DoctorMachineTest, RemediesOnArmAreForArm) {
  add_nic_without_iommu();
  for (const Finding& finding : {check_kernel("5.10.0-34-arm64", "aarch64"),
                                 check_iommu(tree_.roots(), nics(), "aarch64")}) {
    EXPECT_NE(finding.verdict, Verdict::kFine);
    EXPECT_FALSE(finding.mend.empty());
    for (const char* of_x86 : {"amd64", "intel_", "amd_"}) {
      EXPECT_THAT(finding.mend, Not(HasSubstr(of_x86)));
    }
  }
}

TEST_F(DoctorMachineTest, ModulesThatTheNicsNeed) {
  expect(look_at_modules(), Verdict::kFine, "none loaded");
  add_nic_with_iommu();
  expect(look_at_modules(), Verdict::kNote, "none loaded");
  tree_.write("sys/module/vfio_pci/refcnt", "0\n");
  expect(look_at_modules(), Verdict::kFine, "vfio-pci");
  add_nic_without_iommu();  // for which vfio-pci does not suffice
  const Finding finding = look_at_modules();
  expect(finding, Verdict::kNote, "vfio-pci");
  EXPECT_THAT(finding.mend, StartsWith("modprobe uio_pci_generic"));
  tree_.write("sys/bus/pci/drivers/uio_pci_generic/new_id", "");
  expect(look_at_modules(), Verdict::kFine, "uio_pci_generic");
}

TEST_F(DoctorMachineTest, AnEnaNeedsTheModuleThatSuitsEveryDpdk) {
  tree_.write("sys/bus/pci/drivers/uio_pci_generic/new_id", "");
  tree_.add_nic("0000:00:06.0", "0x1d0f 0xec20", "ena", "eth1");
  const Finding finding = look_at_modules();
  expect(finding, Verdict::kNote, "uio_pci_generic");
  EXPECT_EQ(finding.mend, machine::remedy_for("igb_uio"));
  EXPECT_THAT(finding.mend, HasSubstr("dpdk-kmods-dkms && echo 'options igb_uio wc_activate=1' > "
                                      "/etc/modprobe.d/igb_uio.conf && modprobe igb_uio"));
  tree_.write("sys/bus/pci/drivers/igb_uio/new_id", "");
  expect(look_at_modules(), Verdict::kFine, "igb_uio");
}

// An unattended upgrade installs a kernel, and DKMS builds nothing without its headers.
TEST_F(DoctorMachineTest, AKernelForTheNextBootWithoutTheModuleOfANic) {
  const auto look = [this] {
    return check_next_kernel(nics(), "6.1.0-57-cloud-amd64", tree_.path("modules"));
  };
  const std::string next = "modules/6.1.0-58-cloud-amd64/modules.dep";
  const std::string built = "updates/dkms/igb_uio.ko.xz: kernel/drivers/uio/uio.ko.xz\n";
  tree_.write("modules/6.1.0-57-cloud-amd64/modules.dep", built);
  tree_.write(next, "kernel/drivers/uio/uio.ko.xz:\n");
  tree_.add_nic("0000:00:06.0", "0x1d0f 0xec20", "igb_uio", "");
  EXPECT_TRUE(look().empty()) << "no boot binds it";
  tree_.write("etc/driverctl.d/pci-0000:00:06.0", "uio_pci_generic\n");
  EXPECT_TRUE(look().empty()) << "a module of the kernel";
  tree_.write("etc/driverctl.d/pci-0000:00:06.0", "igb_uio\n");
  ASSERT_EQ(look().size(), 1u);
  expect(look().at(0), Verdict::kNote, "Linux 6.1.0-58-cloud-amd64");
  EXPECT_THAT(look().at(0).why, HasSubstr("0000:00:06.0"));
  EXPECT_EQ(look().at(0).mend,
            "apt install linux-headers-6.1.0-58-cloud-amd64 linux-headers-cloud-amd64 && "
            "dkms autoinstall -k 6.1.0-58-cloud-amd64");
  tree_.write(next, built);
  EXPECT_TRUE(look().empty());
}

TEST_F(DoctorMachineTest, WriteCombiningOfAnEna) {
  const auto look = [this](const std::string& options) {
    return check_write_combining(tree_.roots(), nics(), options);
  };
  add_nic_without_iommu();
  EXPECT_TRUE(look("").empty()) << "no ENA";
  tree_.add_nic("0000:00:06.0", "0x1d0f 0xec20", "igb_uio", "");
  ASSERT_EQ(look("").size(), 1u);
  expect(look("").at(0), Verdict::kNote, "0000:00:06.0: modprobe.d does not set");
  expect(look("options igb_uio intr_mode=msix\n").at(0), Verdict::kNote, "modprobe.d");
  expect(look("options other wc_activate=1\n").at(0), Verdict::kNote, "modprobe.d");
  expect(look("options igb_uio intr_mode=msix wc_activate=1\n").at(0), Verdict::kFine,
         "wc_activate=1");
  // What the module says counts, where it says so.
  tree_.write("sys/module/igb_uio/parameters/wc_activate", "0\n");
  expect(look("options igb_uio wc_activate=1\n").at(0), Verdict::kNote, "wc_activate=0");
  tree_.write("sys/module/igb_uio/parameters/wc_activate", "1\n");
  expect(look("").at(0), Verdict::kFine, "wc_activate=1");
}

TEST_F(DoctorMachineTest, Cores) {
  tree_.write("sys/devices/system/cpu/online", "0-7\n");
  tree_.write("sys/devices/system/cpu/isolated", "\n");
  const Finding shared = check_isolation(tree_.roots());
  expect(shared, Verdict::kNote, "0-7 online, none isolated");
  EXPECT_THAT(shared.why, HasSubstr("runs on other cores"));
  EXPECT_THAT(shared.mend, HasSubstr("CPUAffinity=0-7"));
  tree_.write("sys/devices/system/cpu/isolated", "6-7\n");
  expect(check_isolation(tree_.roots()), Verdict::kFine, "6-7 isolated: no worker comes there");
}

TEST_F(DoctorMachineTest, IoUring) {
  expect(check_io_uring(tree_.roots()), Verdict::kFine, "allowed");
  tree_.write("proc/sys/kernel/io_uring_disabled", "0\n");
  expect(check_io_uring(tree_.roots()), Verdict::kFine, "allowed");
  tree_.write("proc/sys/kernel/io_uring_disabled", "2\n");
  expect(check_io_uring(tree_.roots()), Verdict::kNote, "= 2");
}

TEST_F(DoctorMachineTest, Nics) {
  const Finding none = check_nics(nics()).at(0);
  expect(none, Verdict::kNote, "no NIC to spare");
  EXPECT_THAT(none.mend, HasSubstr("device = \"net_af_xdp0,iface=INTERFACE\""));
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
  tree_.link("sys/bus/pci/devices/0000:00:06.0/iommu_group", "sys/kernel/iommu_groups/3");
  tree_.write("sys/bus/pci/devices/0000:00:06.0/driver_override", "vfio-pci\n");
  const Finding passing = check_nics(nics()).at(2);
  expect(passing, Verdict::kNote, "driver vfio-pci, NUMA node 1: bound until the next boot only");
  EXPECT_THAT(passing.mend, HasSubstr("&& lyre nic bind 0000:00:06.0 --driver vfio-pci &&"));
  tree_.write("etc/driverctl.d/pci-0000:00:06.0", "vfio-pci\n");
  expect(check_nics(nics()).at(2), Verdict::kFine, "driver vfio-pci");
}

TEST_F(DoctorMachineTest, AnIntelVirtualFunctionThatGetsNoInterrupt) {
  tree_.write("sys/bus/pci/drivers/uio_pci_generic/new_id", "");
  tree_.add_nic("0000:00:06.0", "0x8086 0x1889", "iavf", "eth1");
  const Finding module = look_at_modules();
  expect(module, Verdict::kNote, "uio_pci_generic");
  EXPECT_THAT(module.why, HasSubstr("(iavf)"));
  tree_.add_nic("0000:00:07.0", "0x8086 0x1889", "uio_pci_generic", "");
  tree_.write("etc/driverctl.d/pci-0000:00:07.0", "uio_pci_generic\n");
  const Finding bound = check_nics(nics()).at(1);
  expect(bound, Verdict::kProblem, "0000:00:07.0, driver uio_pci_generic");
  EXPECT_THAT(bound.why, HasSubstr("gets no interrupt through uio_pci_generic"));
  EXPECT_THAT(bound.mend, HasSubstr("lyre nic bind 0000:00:07.0"));
}

// `lyre nic bind` would take its interface away for nothing.
TEST_F(DoctorMachineTest, ANicThatLyredWouldRefuse) {
  tree_.add_nic("0000:00:05.0", "0x1ae0 0x0042", "gvnic", "eth1");
  auto states = nics();
  note_refusals(states,
                "lyred: 0000:00:05.0: gVNIC needs DPDK 25.11, allowed: lyred of Debian 13\n");
  const Finding refused = check_nics(states).at(0);
  expect(refused, Verdict::kNote, "driver gvnic, NUMA node 1: gVNIC needs DPDK 25.11");
  EXPECT_EQ(refused.mend, "if it is for Lyre: lyred of Debian 13");
  expect(check_driver_modules(tree_.roots(), states, tree_.path("modules")), Verdict::kFine,
         "none loaded");
}

class DoctorConfigTest : public ::testing::Test {
 protected:
  DoctorConfigTest() {
    tree_.write("usr/lyred.service", "");
    tree_.add_nic("0000:00:05.0", "0x1af4 0x1000", "uio_pci_generic", "");
    tree_.add_nic("0000:00:06.0", "0x15b3 0x1019", "mlx5_core", "eth2");
  }
  std::vector<Finding> look(const std::vector<std::string>& devices,
                            const std::string& config = "/etc/lyre/lyred.toml") const {
    return check_drop_ins(devices, tree_.roots(),
                          {.units = {tree_.path("etc"), tree_.path("usr")}, .drop_ins = "/shipped"},
                          unit_of(config));
  }
  void add_drop_in(const std::string& name) { tree_.write("etc/lyred.service.d/" + name, ""); }

  machine::Tree tree_;
};

TEST_F(DoctorConfigTest, ADropInThatAPortNeeds) {
  expect(look({"net_memif0"}).at(0), Verdict::kFine, "no port needs one");
  const std::vector<std::string> devices{"0000:00:05.0", "00:05.0,a=1", "0000:00:06.0"};
  auto findings = look(devices);
  ASSERT_EQ(findings.size(), 2u);
  expect(findings[0], Verdict::kProblem, "0000:00:05.0 needs no-iommu.conf");
  EXPECT_THAT(findings[0].mend, HasSubstr("ln -sf /shipped/no-iommu.conf " +
                                          tree_.path("etc/lyred.service.d").string() + " &&"));
  add_drop_in("no-iommu.conf");
  findings = look(devices);
  ASSERT_EQ(findings.size(), 1u);
  expect(findings[0], Verdict::kProblem, "0000:00:06.0 needs beside-kernel-driver.conf");
  // One of the operator's own may give the same.
  add_drop_in("override.conf");
  expect(look(devices).at(0), Verdict::kNote, "0000:00:06.0 needs beside-kernel-driver.conf");
  add_drop_in("beside-kernel-driver.conf");
  expect(look(devices).at(0), Verdict::kFine, "beside-kernel-driver.conf, no-iommu.conf");
}

TEST_F(DoctorConfigTest, ADropInThatNoPortNeeds) {
  add_drop_in("override.conf");
  add_drop_in("kernel-interface.conf");
  const auto findings = look({"net_memif0"});
  ASSERT_EQ(findings.size(), 1u);
  expect(findings[0], Verdict::kNote, "kernel-interface.conf: no port of lyred.toml needs it");
  EXPECT_THAT(findings[0].mend, StartsWith("rm " + tree_.path("etc").string()));
}

TEST_F(DoctorConfigTest, ADropInThatANicMayNeedOnceItIsBound) {
  add_drop_in("no-iommu.conf");
  tree_.add_nic("0000:00:08.0", "0x8086 0x154c", "i40e", "eth3");
  for (const char* device : {"0000:00:07.0", "0000:00:08.0"}) {  // absent; with its kernel driver
    const auto findings = look({"net_memif0", device});
    ASSERT_EQ(findings.size(), 1u) << device;
    expect(findings[0], Verdict::kFine, std::string(device) + " is not bound for lyred");
  }
}

TEST_F(DoctorConfigTest, AnotherConfigurationIsThatOfAnInstance) {
  const auto of_team = [this](const char* device) {
    return look({device}, "/etc/lyre/team-a.toml");
  };
  add_drop_in("no-iommu.conf");  // the main daemon's
  EXPECT_TRUE(of_team("0000:00:05.0").empty()) << "the template is not installed";
  tree_.write("usr/lyred@.service", "");
  expect(of_team("net_memif0").at(0), Verdict::kFine, "no port needs one");
  const Finding needed = of_team("0000:00:05.0").at(0);
  expect(needed, Verdict::kProblem, "no-iommu.conf, which lyred@team-a.service does not have");
  EXPECT_THAT(needed.mend,
              AllOf(HasSubstr(tree_.path("etc/lyred@team-a.service.d").string() + " &&"),
                    HasSubstr("systemctl restart lyred@team-a")));
  tree_.write("etc/lyred@.service.d/no-iommu.conf", "");  // of all instances
  expect(of_team("0000:00:05.0").at(0), Verdict::kFine, "no-iommu.conf");
  expect(of_team("net_memif0").at(0), Verdict::kFine, "no port needs one");
  tree_.write("etc/lyred@team-a.service.d/no-iommu.conf", "");
  expect(of_team("net_memif0").at(0), Verdict::kNote,
         "lyred@team-a.service.d/no-iommu.conf: no port of team-a.toml needs it");
}

TEST_F(DoctorConfigTest, ALinkToNothingIsNoDropIn) {
  std::filesystem::create_directories(tree_.path("etc/lyred.service.d"));
  std::filesystem::create_symlink("/nonexistent", tree_.path("etc/lyred.service.d/no-iommu.conf"));
  expect(look({"0000:00:05.0"}).at(0), Verdict::kProblem, "needs no-iommu.conf");
}

TEST_F(DoctorConfigTest, WithoutTheServiceThereIsNothingToSay) {
  std::filesystem::remove(tree_.path("usr/lyred.service"));
  EXPECT_TRUE(look({"0000:00:05.0"}).empty());
}

TEST_F(DoctorConfigTest, NodesOfNicsAndCores) {
  const auto numa = [this](const std::vector<uint32_t>& cores) {
    return check_numa({"0000:00:05.0", "net_memif0"}, cores, tree_.roots());
  };
  for (const char* processor : {"cpu2/node0", "cpu3/node0", "cpu8/node1"}) {
    tree_.write(std::string("sys/devices/system/cpu/") + processor + "/cpulist", "");
  }
  tree_.write("sys/devices/system/node/node1/cpulist", "8-15\n");
  EXPECT_TRUE(numa({}).empty()) << "lyred chooses them";
  ASSERT_EQ(numa({8}).size(), 1u);
  expect(numa({8}).at(0), Verdict::kFine, "0000:00:05.0 is at NUMA node 1, workers.cores = 8 too");
  expect(numa({3, 2}).at(0), Verdict::kNote, "workers.cores = 2-3 at another one");
  EXPECT_THAT(numa({2}).at(0).mend, HasSubstr("or some of 8-15"));
  auto as_tenant = numa({2});
  refer_to_administrator(as_tenant);
  EXPECT_THAT(as_tenant.at(0).mend, HasSubstr("ask the administrator"));
  expect(numa({2, 8}).at(0), Verdict::kNote, "only in part");
}

TEST(DoctorConfig, TellsWhatIsAllowedAsTheRemedy) {
  const auto wrong = read_config_check(2, "lyred: f:2: port.device: a is away, allowed: b or c\n");
  expect(wrong.at(0), Verdict::kProblem, "f:2: port.device: a is away");
  EXPECT_EQ(wrong[0].mend, "use b or c");
  EXPECT_THAT(wrong[0].saw, Not(HasSubstr("allowed")));
}

TEST(DoctorConfig, IsWhatTheDaemonSays) {
  const auto right = read_config_check(0, "/etc/lyre/lyred.toml: right\n");
  ASSERT_EQ(right.size(), 1u);
  expect(right[0], Verdict::kFine, "/etc/lyre/lyred.toml: right");
  const auto wrong = read_config_check(2, "lyred: f:2: a: wrong\nlyred: f:3: b: wrong\n");
  ASSERT_EQ(wrong.size(), 2u);
  expect(wrong[0], Verdict::kProblem, "f:2: a: wrong");
  EXPECT_EQ(wrong[1].saw, "f:3: b: wrong");
  const Finding missing = read_config_check(std::nullopt, "").at(0);
  expect(missing, Verdict::kNote, "not installed");
  EXPECT_EQ(missing.mend,
            "apt install ./lyre_*.deb ./lyre-nccl_*.deb, in the folder of the packages");
}

// A start fails where the unit lacks it, and the check in a shell does not.
TEST(DoctorConfig, NotesWhatTheUnitNeedsForIsolatedCores) {
  const auto findings = read_config_check(
      0,
      "f: right\nisolated cores outside the CPU affinity of this shell: 3; the unit of the "
      "service needs CPUAffinity=0-7\n");
  ASSERT_EQ(findings.size(), 2u);
  expect(findings[0], Verdict::kFine, "f: right");
  expect(findings[1], Verdict::kNote, "isolated cores outside the CPU affinity of this shell: 3");
  EXPECT_THAT(findings[1].saw, Not(HasSubstr("CPUAffinity=")));
  EXPECT_THAT(findings[1].mend, HasSubstr("CPUAffinity=0-7 under [Service]"));
}

// The log said it when the daemon ran.
TEST(DoctorConfig, NotesAPortThatWillGoThroughTheHost) {
  const auto findings = read_config_check(
      0,
      "f: right\nport a sends and receives through the host, which is slower: its virtual "
      "function is a MANA function, and DPDK 22.11.11 has no driver of it here, allowed: lyred of "
      "Debian 13, or its image\n");
  ASSERT_EQ(findings.size(), 2u);
  expect(findings[1], Verdict::kNote, "DPDK 22.11.11 has no driver of it here");
  EXPECT_EQ(findings[1].mend, "use lyred of Debian 13, or its image");
}

// lyred --check in a shell has other cores than the service.
TEST(DoctorConfig, NamesCoresThatTheUnitDoesNotGive) {
  const auto look = [](const std::string& shown, const std::vector<uint32_t>& cores) {
    return check_affinity(shown, cores, unit_of("/etc/lyre/team-a.toml"));
  };
  const std::string stopped = "MainPID=0\nCPUAffinity=0-2 5\n";
  const auto findings = look(stopped, {6, 1, 3});
  ASSERT_EQ(findings.size(), 1u);
  expect(findings[0], Verdict::kProblem,
         "CPUAffinity=0-2, 5 of lyred@team-a.service does not have 3, 6 of workers.cores");
  EXPECT_EQ(findings[0].mend, "CPUAffinity=3, 6 under [Service]: systemctl edit lyred@team-a");
  EXPECT_TRUE(look(stopped, {0, 5}).empty());
  EXPECT_TRUE(look(stopped, {}).empty()) << "lyred chooses them";
  EXPECT_TRUE(look("CPUAffinity=0-2\nMainPID=4711\n", {3}).empty()) << "it runs";
  EXPECT_TRUE(look("MainPID=0\nCPUAffinity=\n", {3}).empty()) << "the unit has none";
  EXPECT_TRUE(look("System has not been booted with systemd\n", {3}).empty());
}

TEST(DoctorDaemon, VersionPortsAndChecksums) {
  FakeSegment segment;
  const auto look = [&] {
    return read_snapshot(segment.data(), segment.bytes(), FakeSegment::kNowNs);
  };
  auto findings = check_running(look(), nullptr, "0.1.0");
  ASSERT_EQ(findings.size(), 4u);
  expect(findings[0], Verdict::kFine, "lyred 0.1.0, pid 4711, this lyre is 0.1.0");
  expect(findings[1], Verdict::kFine, "memif0: net_memif0, link up");
  expect(findings[2], Verdict::kFine, "memif0: no other host claims");
  expect(findings[3], Verdict::kFine, "no session with another host is open");
  expect(check_running(look(), nullptr, "0.2.0").at(0), Verdict::kNote, "this lyre is 0.2.0");

  segment.port().state.store(3);
  expect(check_running(look(), nullptr, "0.1.0").at(1), Verdict::kProblem, "link away");
  segment.port().state.store(0);
  segment.port().is_link_up.store(0);
  segment.worker(1).drops[static_cast<size_t>(Drop::kTcpBadChecksum)].add(3);
  findings = check_running(look(), nullptr, "0.1.0");
  ASSERT_EQ(findings.size(), 5u);
  expect(findings[1], Verdict::kProblem, "link down");
  expect(findings[4], Verdict::kNote, "3 segments with a wrong checksum");
}

// One that was corrupted long ago was a problem until the daemon was restarted.
TEST(DoctorDaemon, ChecksumsAreAProblemWhileTheyAreWrong) {
  FakeSegment segment;
  std::strcpy(segment.port().device, "net_af_packet0,iface=veth0");
  const auto look = [&] {
    return read_snapshot(segment.data(), segment.bytes(), FakeSegment::kNowNs);
  };
  channel::StatCounter& bad = segment.worker(1).drops[static_cast<size_t>(Drop::kTcpBadChecksum)];
  EXPECT_FALSE(needs_earlier_look(look()));
  EXPECT_TRUE(check_checksums(look(), nullptr).empty());
  segment.worker(0).tcp_segments_in.set(1'000'000);
  bad.set(1000);
  EXPECT_TRUE(needs_earlier_look(look()));
  const Snapshot earlier = look();
  expect(check_checksums(look(), &earlier).at(0), Verdict::kNote, "1000 segments");
  EXPECT_THAT(check_checksums(look(), &earlier)[0].saw, ::testing::EndsWith("since the start"));
  bad.add(1);
  const Finding grows = check_checksums(look(), &earlier).at(0);
  expect(grows, Verdict::kProblem, "since the start, 1 of them between two looks");
  EXPECT_THAT(grows.mend, HasSubstr("ethtool -K INTERFACE tx off"));
  const Snapshot many = look();
  expect(check_checksums(look(), &many).at(0), Verdict::kProblem, "1001 segments");
  segment.worker(0).tcp_segments_in.add(1'000'000);
  expect(check_checksums(look(), &many).at(0), Verdict::kNote, "1001 segments");
}

class DoctorPortTest : public ::testing::Test {
 protected:
  Snapshot look() const {
    return read_snapshot(segment_.data(), FakeSegment::bytes(), FakeSegment::kNowNs);
  }
  void claim(uint32_t worker, uint8_t last_byte_of_mac, int64_t seconds_ago,
             const char* address = "10.9.0.1") {
    channel::ClaimView view{};
    FakeSegment::put_address(address, view.address);
    view.mac[5] = last_byte_of_mac;
    view.seen_unix_ns = FakeSegment::kNowNs - seconds_ago * 1'000'000'000;
    segment_.queue(worker).claim.write(&view);
  }
  void open_session(uint32_t row, const char* peer, uint32_t mss, uint32_t mss_full) {
    channel::SessionView view = FakeSegment::connection();
    FakeSegment::put_address(peer, view.remote_address);
    view.mss_bytes = mss;
    view.mss_full_bytes = mss_full;
    segment_.row(0, row).write(&view);
  }
  channel::PortOffloads& as_nic() {
    channel::PortOffloads& offloads = segment_.port().offloads;
    offloads = {.driver = "net_ena",
                .queue_count = 2,
                .tso_bytes_max = 64 * 1024,
                .is_nic = 1,
                .has_rss = 1,
                .has_tx_checksums = 1,
                .has_rx_checksums = 1,
                .reserved = {}};
    return offloads;
  }

  FakeSegment segment_;
};

TEST_F(DoctorPortTest, AnAddressThatAnotherHostHas) {
  expect(check_addresses(look()).at(0), Verdict::kFine, "no other host claims");
  claim(0, 7, 3600);
  expect(check_addresses(look()).at(0), Verdict::kNote, "00:00:00:00:00:07 claimed 10.9.0.1");
  claim(1, 9, 60);  // the newest of all workers
  expect(check_addresses(look()).at(0), Verdict::kProblem, "00:00:00:00:00:09 claimed 10.9.0.1");
  segment_.header().is_domain = 1;
  EXPECT_TRUE(check_addresses(look()).empty()) << "its segment does not show claims";
}

TEST_F(DoctorPortTest, ARouterThatAnswersForTheAddress) {
  channel::RouteView route{};
  channel::NeighbourView router{};
  for (auto* address : {&route.gateway, &router.address}) {
    FakeSegment::put_address("10.9.0.254", *address);
  }
  router.mac[5] = 7;
  segment_.route(0).write(&route);
  segment_.neighbour(0, 0).write(&router);
  claim(0, 7, 60);
  expect(check_addresses(look()).at(0), Verdict::kNote, "00:00:00:00:00:07 claimed 10.9.0.1");
  claim(1, 9, 30);
  expect(check_addresses(look()).at(0), Verdict::kProblem, "00:00:00:00:00:09");
  claim(0, 7, 10, "fd00:9::1");  // which is not used, therefore
  expect(check_addresses(look()).at(0), Verdict::kProblem, "00:00:00:00:00:07 claimed fd00:9::1");
}

TEST_F(DoctorPortTest, OffloadsOfANic) {
  EXPECT_TRUE(check_offloads(look()).empty()) << "a virtual wire has none";
  channel::PortOffloads& offloads = as_nic();
  expect(check_offloads(look()).at(0), Verdict::kFine,
         "net_ena, 2 queues, RSS, TSO of 64.0 KiB, sent checksums, received checksums");
  offloads.tso_bytes_max = 0;
  expect(check_offloads(look()).at(0), Verdict::kNote, "no TSO");
  offloads.has_rx_checksums = 0;
  expect(check_offloads(look()).at(0), Verdict::kNote, "no received checksums");
  EXPECT_THAT(check_offloads(look()).at(0).why, HasSubstr("every byte"));
  offloads.has_rss = 0;
  EXPECT_THAT(check_offloads(look()).at(0).why, HasSubstr("without RSS"));
  segment_.header().worker_count = 1;  // who needs none
  EXPECT_THAT(check_offloads(look()).at(0).why, HasSubstr("every byte"));
}

TEST_F(DoctorPortTest, PathsThatCarryLessThanThePort) {
  open_session(0, "10.9.0.2", 1460, 1460);
  expect(check_paths(look()).at(0), Verdict::kFine, "1 peer: packets as large as the port's MTU");
  open_session(1, "10.9.0.3", 1160, 1460);
  auto findings = check_paths(look());
  ASSERT_EQ(findings.size(), 2u);
  expect(findings[0], Verdict::kNote, "10.9.0.3: packets of 1200 bytes, the MTU of memif0 is 1500");
  EXPECT_THAT(findings[0].mend, StartsWith("mtu = 1200"));
  open_session(1, "10.9.0.3", 536, 1460);
  findings = check_paths(look());
  EXPECT_THAT(findings.at(0).why, HasSubstr("or did not for a moment"));
  EXPECT_THAT(findings.at(0).why, HasSubstr("the limit is from 576 to 1500"));
  EXPECT_THAT(findings.at(0).mend, HasSubstr("ping -M do -s SIZE 10.9.0.3"));
  EXPECT_THAT(findings.at(0).mend, Not(HasSubstr("mtu = 576")));
  open_session(1, "fd00:9::3", 1220, 1440);
  findings = check_paths(look());
  EXPECT_THAT(findings.at(0).why, HasSubstr("the limit is from 1280 to 1500"));
  EXPECT_THAT(findings.at(0).mend, HasSubstr("plus 48"));
  open_session(1, "10.9.0.3", 1160, 1460);
  open_session(0, "10.9.0.2", 1260, 1260);
  findings = check_paths(look());
  ASSERT_EQ(findings.size(), 2u);
  expect(findings[0], Verdict::kNote, "10.9.0.2: packets of 1300 bytes");
  EXPECT_THAT(findings[0].why, HasSubstr("the peer takes no larger ones"));
  // A session within the host takes no path.
  open_session(0, "10.9.0.1", 1160, 1460);
  open_session(1, "fd00:9::1", 1160, 1460);
  EXPECT_THAT(check_paths(look()).at(0).saw, HasSubstr("no session with another host"));
}

// TCP's search stops at usual sizes: the path may carry more.
TEST_F(DoctorPortTest, APathThatCarriesAStepOfTheSearchMayCarryMore) {
  open_session(0, "10.9.0.3", 1360, 1460);
  const Finding finding = check_paths(look()).at(0);
  expect(finding, Verdict::kNote, "10.9.0.3: packets of 1400 bytes");
  EXPECT_EQ(finding.why, "TCP knows of no larger ones that arrive");
  EXPECT_THAT(finding.mend, StartsWith("mtu = 1400 at least"));
  EXPECT_THAT(finding.mend, HasSubstr("ping -M do -s SIZE 10.9.0.3"));
  open_session(0, "fd00:9::3", 1340, 1440);
  EXPECT_THAT(check_paths(look()).at(0).mend, StartsWith("mtu = 1400 at least"));
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

// They come from a job, and the reader may be root.
TEST(DoctorReport, HasNoEscapeSequencesOfAJob) {
  const std::string text =
      findings_text({problem("nccl net", "a\x1b[2J\xff", "b\n\x9b", "c\x7f\r")});
  EXPECT_EQ(text,
            "PROBLEM  nccl net      a?[2J?\n"
            "                       why: b??\n"
            "                       do:  c??\n"
            "\n1 problem, 0 notes\n");
}

TEST(DoctorReport, IsJsonWhateverBytesAJobHas) {
  const auto json = nlohmann::json::parse(findings_json({fine("job", "\xff\x1b")}));
  EXPECT_EQ(json["checks"][0]["saw"], "\uFFFD\x1b");
}

}  // namespace
}  // namespace lyre::tools
