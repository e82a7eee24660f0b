#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/machine/tree.h"
#include "tests/unit/tools/expect_finding.h"
#include "tools/lyre/configured.h"
#include "tools/lyre/doctor/daemon_checks.h"
#include "tools/lyre/doctor/machine_checks.h"
#include "tools/lyre/hugepage_need.h"

namespace lyre::tools {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class DoctorHugepagesTest : public ::testing::Test {
 protected:
  std::vector<NicState> nics() {
    return nic_states(tree_.roots(), machine::NicGuard(tree_.roots()));
  }
  /// For ports on `devices`, while a daemon runs.
  Finding look(const std::vector<std::string>& devices, uint64_t needed_mib = 384) {
    return check_hugepages(tree_.roots(), nics(), devices, needed_mib, true);
  }
  /// The same while none runs.
  Finding look_before_start(const std::vector<std::string>& devices) {
    return check_hugepages(tree_.roots(), nics(), devices, 384, false);
  }
  /// A process that has mapped memory with this name, in hugepages. `state`: as in proc/PID/stat.
  void add_process(const std::string& pid, const std::string& name, const std::string& memory,
                   int inode, const std::string& state = "T") {
    tree_.write("proc/" + pid + "/comm", name + "\n");
    tree_.write("proc/" + pid + "/stat", pid + " (" + name + ") " + state + " 1 1 1 0 -1\n");
    tree_.write("proc/" + pid + "/numa_maps",
                "55d0c0000000 default file=/usr/bin/" + name +
                    " mapped=1 N0=1 kernelpagesize_kB=4\n7f0000000000 default file=/memfd:" +
                    memory + "\\040(deleted) huge dirty=9 N0=9 kernelpagesize_kB=2048\n");
    tree_.write("proc/" + pid + "/maps",
                "55d0c0000000-55d0c0001000 r-xp 00000000 fe:01 7  /usr/bin/" + name +
                    "\n7f0000000000-7f0001200000 r--s 00000000 00:0f " + std::to_string(inode) +
                    "                      /memfd:" + memory + " (deleted)\n");
  }
  Finding look_at_boot(uint64_t needed_mib = 384) {
    return check_hugepages_at_boot(
        tree_.roots(),
        {.sysctl = {tree_.path("etc/sysctl.d")}, .tmpfiles = {tree_.path("etc/tmpfiles.d")}},
        needed_mib);
  }
  void set_default_kib(int kib) {
    tree_.write("proc/meminfo", "MemTotal: 9 kB\nHugepagesize: " + std::to_string(kib) + " kB\n");
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
  expect(look({}), Verdict::kNote, "0 MiB reserved");
  add_nic_without_iommu();
  expect(look({"0000:00:05.0"}), Verdict::kProblem, "0 MiB reserved");
  set_hugepages(191, 191);
  expect(look({"0000:00:05.0"}), Verdict::kNote, "382 MiB reserved");
  set_hugepages(192, 192);
  expect(look({"0000:00:05.0"}), Verdict::kFine, "384 MiB of them free");
}

TEST_F(DoctorHugepagesTest, OnlyAPortThatFetchesPhysicalAddressesNeedsThem) {
  set_hugepages(0, 0);
  add_nic_without_iommu();
  const Finding spare = look({"net_memif0", "net_af_xdp0,iface=eth1"});
  expect(spare, Verdict::kNote, "0 MiB reserved");
  EXPECT_THAT(spare.why, HasSubstr("no port needs them yet"));
  expect(look({"net_memif0", "00:05.0,a=1"}), Verdict::kProblem, "0 MiB reserved");
  tree_.add_nic("0000:00:06.0", "0x8086 0x154c", "vfio-pci", "");
  expect(look({"0000:00:06.0"}), Verdict::kProblem, "0 MiB reserved");  // without an IOMMU
  tree_.link("sys/bus/pci/devices/0000:00:06.0/iommu_group", "sys/kernel/iommu_groups/3");
  expect(look({"0000:00:06.0"}), Verdict::kNote, "0 MiB reserved");
  tree_.add_nic("0000:00:07.0", "0x15b3 0x1019", "mlx5_core", "eth2");
  expect(look({"0000:00:07.0"}), Verdict::kNote, "0 MiB reserved");
}

TEST_F(DoctorHugepagesTest, HugepagesForAllWorkers) {
  EXPECT_EQ(hugepages_mib(1, {}), 384u);
  EXPECT_EQ(hugepages_mib(4, {}), 384u);
  EXPECT_EQ(hugepages_mib(8, {}), 8 * 68u + 96);
  EXPECT_EQ(hugepages_mib(4, {.rx_slots = 8192, .mtu_bytes = 9001}), 4 * 129u + 96);
  EXPECT_EQ(hugepages_mib(4, {.has_super_packets = true}), 4 * 194u + 96);
  EXPECT_GT(hugepages_mib(1, {.rx_slots = 1 << 18, .mtu_bytes = 1500}), 600u);
  set_hugepages(192, 192);
  const Finding finding = look({}, 600);
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
  EXPECT_FALSE(packets.has_super_packets);
  EXPECT_EQ(configured_packets(tree_.path("none.toml")).mtu_bytes, 1500u);
}

// `lyre doctor` asked for a third of what such a worker needs.
TEST_F(DoctorHugepagesTest, SuperPacketsOfAnyPortMakeTheBuffersOfAllLarge) {
  for (const char* key : {"super_packets = true", "device = \"net_af_packet0,iface=eth1\""}) {
    tree_.write("a.toml", "[[port]]\ndevice = \"0000:00:06.0\"\n[[port]]\n" + std::string(key) +
                              "\n[[port]]\nsuper_packets = false\n");
    EXPECT_TRUE(configured_packets(tree_.path("a.toml")).has_super_packets) << key;
  }
}

// It has taken them.
TEST_F(DoctorHugepagesTest, HugepagesOfTheDaemonThatRuns) {
  add_nic_without_iommu();
  set_hugepages(192, 0);
  expect(look({"0000:00:05.0"}), Verdict::kFine, "384 MiB reserved in pages of 2 MiB, 0 MiB of");
  expect(look_at_boot(), Verdict::kNote, "not reserved at boot");
}

// A stopped client keeps the receive pool of a daemon that has ended: the next one cannot start.
TEST_F(DoctorHugepagesTest, WhoKeepsThePagesOfADaemonThatHasEnded) {
  add_nic_without_iommu();
  set_hugepages(192, 192);
  expect(look_before_start({"0000:00:05.0"}), Verdict::kFine, "384 MiB of them free");
  set_hugepages(192, 183);
  add_process("17", "bash", "other", 5);
  add_process("311", "python3", "lyre-rx0", 6);
  add_process("42", "trainer", "lyre-rx1", 7);
  const Finding finding = look_before_start({"0000:00:05.0"});
  expect(finding, Verdict::kProblem, "366 MiB of them free");
  EXPECT_THAT(finding.why, HasSubstr("384 MiB of free ones"));
  EXPECT_THAT(finding.why, EndsWith("kept by trainer (pid 42), python3 (pid 311)"));
  EXPECT_EQ(finding.mend, "kill -CONT 42 311");
}

// Without free ones a port that needs none starts as well.
TEST_F(DoctorHugepagesTest, TakenPagesThatNoPortNeeds) {
  set_hugepages(192, 183);
  const Finding finding = look_before_start({"net_memif0"});
  expect(finding, Verdict::kNote, "366 MiB of them free");
  EXPECT_THAT(finding.why, EndsWith("one that starts uses up to 384 MiB of free ones; without "
                                    "them it takes ordinary pages"));
  EXPECT_THAT(finding.mend, StartsWith("echo 201 >"));
}

// A rank that computes was to be ended, and a process that had ended meanwhile.
TEST_F(DoctorHugepagesTest, OnlyStoppedProcessesKeepPages) {
  set_hugepages(192, 183);
  add_process("41", "trainer", "lyre-rx0", 6, "S");
  add_process("42", "a) T (b", "lyre-rx0", 6, "R");
  add_process("43", "gone", "lyre-rx0", 6);
  tree_.write("proc/43/comm", "");
  const Finding none = look_before_start({});
  EXPECT_THAT(none.why, Not(HasSubstr("kept by")));
  EXPECT_THAT(none.mend, StartsWith("echo 201 >"));
  add_process("44", "traced", "lyre-rx0", 6, "t");
  const Finding one = look_before_start({});
  EXPECT_THAT(one.why, EndsWith("kept by traced (pid 44)"));
  EXPECT_EQ(one.mend, "kill -CONT 44");
}

TEST_F(DoctorHugepagesTest, OrdinaryPagesAreNoneOfThem) {
  set_hugepages(192, 183);
  add_process("42", "trainer", "lyre-rx0", 6);
  tree_.write("proc/42/numa_maps",
              "7f0000000000 default file=/memfd:lyre-rx0\\040(deleted) dirty=9 N0=9 "
              "kernelpagesize_kB=4\n");
  EXPECT_THAT(look_before_start({}).mend, StartsWith("echo 201 >"));
}

// The pool of the client may be that daemon's.
TEST_F(DoctorHugepagesTest, WhereADaemonsMapsCannotBeReadNobodyIsNamed) {
  set_hugepages(192, 183);
  add_process("41", "trainer", "lyre-rx0", 6);
  tree_.write("proc/50/comm", "lyred\n");
  const Finding finding = look_before_start({});
  EXPECT_THAT(finding.why, Not(HasSubstr("kept by")));
  EXPECT_THAT(finding.mend, StartsWith("echo 201 >"));
}

TEST_F(DoctorHugepagesTest, ClientsOfAnotherDaemonAreNotToBeEnded) {
  set_hugepages(192, 183);
  add_process("40", "lyred", "lyre-rx0", 6, "S");
  add_process("41", "trainer", "lyre-rx0", 6);
  const Finding finding = look_before_start({});
  EXPECT_THAT(finding.why, EndsWith("kept by lyred (pid 40)"));
  EXPECT_THAT(finding.mend, StartsWith("echo 201 >"));
}

/// What `lyre nic bind` and the advice of `lyre doctor` write to tmpfiles.d.
constexpr char kTmpfilesLine[] =
    "w /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages - - - - 306";

TEST_F(DoctorHugepagesTest, HugepagesAtBoot) {
  set_hugepages(0, 0);
  expect(look_at_boot(), Verdict::kFine, "no hugepages");
  set_hugepages(192, 192);
  expect(look_at_boot(), Verdict::kNote, "not reserved at boot");
  tree_.write("proc/cmdline", "quiet hugepages=192\n");
  expect(look_at_boot(), Verdict::kFine, "384 MiB at boot, by the kernel's command line");
  tree_.write("etc/sysctl.d/60-lyre.conf", "vm.nr_hugepages = 193\n");
  expect(look_at_boot(), Verdict::kFine,
         "386 MiB at boot, by " + tree_.path("etc/sysctl.d").string());
  tree_.write("etc/tmpfiles.d/lyre-nic.conf", kTmpfilesLine);
  expect(look_at_boot(), Verdict::kFine,
         "612 MiB at boot, by " + tree_.path("etc/tmpfiles").string());
}

// The name of the setting was looked for, not its number.
TEST_F(DoctorHugepagesTest, TooFewAtBoot) {
  set_hugepages(192, 192);
  tree_.write("etc/sysctl.d/70-a.conf", "# vm.nr_hugepages = 192\n");
  expect(look_at_boot(), Verdict::kNote, "hugepages of 2 MiB are not reserved at boot");
  tree_.write("etc/sysctl.d/70-a.conf", "vm.nr_hugepages = 0\n");
  expect(look_at_boot(), Verdict::kNote, "are not reserved at boot, by ");
  tree_.write("etc/sysctl.d/70-a.conf", "vm.nr_hugepages = 64\n");
  expect(look_at_boot(), Verdict::kNote, "128 MiB in hugepages of 2 MiB at boot, by ");
  tree_.write("etc/sysctl.d/60-a.conf", "vm.nr_hugepages = 192\n");  // is read before
  const Finding overridden = look_at_boot();
  expect(overridden, Verdict::kNote, "70-a.conf, needed: 384 MiB");
  EXPECT_THAT(overridden.mend, StartsWith("in " + tree_.path("etc/sysctl.d/70-a.conf").string() +
                                          ": vm.nr_hugepages = 192    # then sysctl --load "));
}

TEST_F(DoctorHugepagesTest, WhatIsAdvisedForTheBootSuffices) {
  set_hugepages(192, 192);
  EXPECT_THAT(look_at_boot(612).mend, StartsWith("echo 'vm.nr_hugepages = 306' > /etc/sysctl"));
  set_hugepages(400, 400);  // it takes none of these away
  EXPECT_THAT(look_at_boot(612).mend, HasSubstr("vm.nr_hugepages = 400'"));
}

TEST_F(DoctorHugepagesTest, WhereTheDefaultSizeIsAnotherOne) {
  set_default_kib(1 << 20);
  set_hugepages(192, 192);
  // That counts pages of 1 GiB.
  tree_.write("etc/sysctl.d/60-lyre.conf", "vm.nr_hugepages = 4\n");
  const Finding finding = look_at_boot(612);
  expect(finding, Verdict::kNote, "hugepages of 2 MiB are not reserved at boot");
  EXPECT_THAT(finding.mend,
              StartsWith(std::string("echo '") + kTmpfilesLine + "' > /etc/tmpfiles.d/"));
  tree_.write("etc/tmpfiles.d/lyre-hugepages.conf", kTmpfilesLine);
  expect(look_at_boot(), Verdict::kFine, "tmpfiles");
}

TEST_F(DoctorHugepagesTest, OnTheKernelsCommandLinePagesOf2MibCount) {
  set_hugepages(192, 192);
  const auto verdict_of = [this](const std::string& command_line) {
    tree_.write("proc/cmdline", command_line + "\n");
    return look_at_boot().verdict;
  };
  set_default_kib(2048);
  EXPECT_EQ(verdict_of("hugepages=192"), Verdict::kFine);
  EXPECT_EQ(verdict_of("hugepages=0"), Verdict::kNote);
  EXPECT_EQ(verdict_of("hugepagesz=1G hugepages=4"), Verdict::kNote);
  EXPECT_EQ(verdict_of("hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=192"), Verdict::kFine);
  set_default_kib(1 << 20);
  EXPECT_EQ(verdict_of("default_hugepagesz=1G hugepages=4"), Verdict::kNote);
  EXPECT_EQ(verdict_of("hugepages=4 default_hugepagesz=1G"), Verdict::kNote);
  EXPECT_EQ(verdict_of("default_hugepagesz=1G hugepagesz=2048K hugepages=0:96,1:96"),
            Verdict::kFine);
}

}  // namespace
}  // namespace lyre::tools
