#include "tools/lyre/nic/nic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "machine/default_driver.h"
#include "tests/unit/tools/nic_machine.h"
#include "tools/lyre/configured.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/nic/port_section.h"
#include "tools/lyre/nic/preparation.h"

namespace lyre::tools {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(NicTest, ListShowsWhatEachIsNeededFor) {
  const std::string text = nics_text(states_);
  EXPECT_THAT(text,
              HasSubstr("0000:00:03.0  1af4:1000  eth0       virtio-pci  -           no        1"
                        "  this machine's default route\n"));
  EXPECT_THAT(text,
              HasSubstr("0000:00:06.0  8086:154c  -          vfio-pci    vfio-pci    yes       1"
                        "  -\n"));
  const auto json = nlohmann::json::parse(nics_json(states_));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["nics"].size(), 4u);
  EXPECT_EQ(json["nics"][0]["needed_for"], "this machine's default route");
  EXPECT_EQ(nics_text({}), "no Ethernet NIC on the PCI bus or the VMbus\n");
}

// The kernel's driver_override ends with the boot.
TEST_F(NicTest, ListShowsTheDriverThatDriverctlBindsAtABoot) {
  tree_.write("etc/driverctl.d/pci-0000:00:06.0", "");
  states_ = nic_states(tree_.roots(), machine::NicGuard(tree_.roots()));
  EXPECT_THAT(nics_text(states_),
              HasSubstr("0000:00:06.0  8086:154c  -          vfio-pci    -           yes"));
  const auto json = nlohmann::json::parse(nics_json(states_));
  EXPECT_EQ(json["nics"][2]["driver_override"], "vfio-pci");
  EXPECT_EQ(json["nics"][2]["driver_after_boot"], "");
}

// Such bytes, of a file of the machine, ended the command.
TEST_F(NicTest, BytesThatAreNotUtf8AreReplacedInJson) {
  states_[0].needed_for = "\xff";
  EXPECT_THAT(nics_json(states_), HasSubstr("\"needed_for\": \"\uFFFD\""));
}

TEST_F(NicTest, BindChoosesTheDriverByTheIommuAndTheNic) {
  EXPECT_THAT(bind_command(states_, {.name = "eth1", .driver = ""}),
              ElementsAre("driverctl", "set-override", "0000:00:05.0", "igb_uio"));
  EXPECT_THAT(bind_command(states_, {.name = "00:06.0", .driver = ""}),
              ElementsAre("driverctl", "set-override", "0000:00:06.0", "vfio-pci"));
  EXPECT_THAT(bind_command(states_, {.name = "0000:00:05.0", .driver = "uio_pci_generic"}),
              ElementsAre("driverctl", "set-override", "0000:00:05.0", "uio_pci_generic"));
}

TEST_F(NicTest, ThePortSectionUsesTheNicAsTheKernelDid) {
  const NicState nic = nic_named(states_, "eth1");
  EXPECT_EQ(
      port_section(nic, {.addresses = {"10.0.1.5/24"}, .mtu_bytes = 9001, .speed_mbps = 25000}),
      "\n[[port]]\nname = \"eth1\"\ndevice = \"0000:00:05.0\"\nspeed_mbps = 25000\n"
      "address = \"10.0.1.5/24\"\nmtu = 9001\n");
  EXPECT_THAT(port_section(nic, {.addresses = {"10.0.1.5/24", "fd00::5/64"}}),
              HasSubstr("address = [\"10.0.1.5/24\", \"fd00::5/64\"]\n"));
  EXPECT_THAT(port_section(nic, {}), HasSubstr("#address = "));
}

// A NIC that was bound had one worker, whatever its speed, which was recorded nowhere.
TEST_F(NicTest, ThePortSectionHasTheSpeedThatTheKernelKnew) {
  const auto section = [&](const std::string& interface) {
    return port_section(nic_named(states_, interface), interface_use({interface}, tree_.roots()));
  };
  for (const char* unknown : {"-1\n", "0\n", ""}) {
    tree_.write("sys/class/net/eth1/speed", unknown);
    EXPECT_THAT(section("eth1"), HasSubstr("(one worker if it is the only port)"));
    EXPECT_THAT(section("eth1"), HasSubstr("\n#speed_mbps = 25000\n"));
  }
  tree_.write("sys/class/net/eth1/speed", "50000\n");
  EXPECT_THAT(section("eth1"), HasSubstr("device = \"0000:00:05.0\"\nspeed_mbps = 50000\n"));
  EXPECT_THAT(section("eth2"), Not(HasSubstr("speed_mbps"))) << "the kernel keeps its interface";
}

// Which lyred --check refuses while the kernel has them.
TEST_F(NicTest, ThePortSectionOfANicThatStaysSaysThatItsAddressesDo) {
  const InterfaceUse use{.addresses = {"10.0.3.5/24"}};
  EXPECT_THAT(port_section(nic_named(states_, "eth2"), use),
              HasSubstr("\n#   ip address del 10.0.3.5/24 dev eth2\n"));
  EXPECT_THAT(port_section(nic_named(states_, "eth1"), use), Not(HasSubstr("ip address del")));
  EXPECT_THAT(port_section(nic_named(states_, "eth2"), {}), Not(HasSubstr("ip address del")));
}

TEST_F(NicTest, AnInterfaceHasTheAddressesOfTheKernel) {
  EXPECT_THAT(interface_use({"lo"}).addresses, Contains("127.0.0.1/8"));
  EXPECT_THAT(interface_use({"nothing0"}).addresses, IsEmpty());
}

TEST_F(NicTest, BindRefusesWhatTheMachineNeeds) {
  EXPECT_EQ(refusal({.name = "eth0", .driver = ""}),
            "0000:00:03.0 (eth0) carries this machine's default route, allowed: another NIC, or "
            "--force, which may cut you off");
  EXPECT_THAT(bind_command(states_, {.name = "eth0", .driver = "", .is_forced = true}),
              ElementsAre("driverctl", "set-override", "0000:00:03.0", "uio_pci_generic"));
}

TEST_F(NicTest, BindRefusesWhatHasToStayWithItsDriver) {
  EXPECT_THAT(bind_command(states_, {.name = "eth2", .driver = ""}), IsEmpty());
  EXPECT_THAT(refusal({.name = "0000:00:0b.0", .driver = ""}),
              HasSubstr("there is no NIC '0000:00:0b.0', allowed: 0000:00:03.0, "));
}

// It would stay without a driver, at every boot.
TEST_F(NicTest, BindRefusesVfioWithoutIommu) {
  EXPECT_THAT(refusal({.name = "eth1", .driver = "vfio-pci"}),
              HasSubstr("0000:00:05.0 is behind no IOMMU"));
  EXPECT_THAT(bind_command(states_, {.name = "eth1", .driver = "vfio-pci", .is_forced = true}),
              ElementsAre("driverctl", "set-override", "0000:00:05.0", "vfio-pci"));
}

TEST_F(NicTest, BindGivesAnIntelVirtualFunctionItsInterrupt) {
  tree_.add_nic("0000:00:08.0", "0x8086 0x1889", "iavf", "eth3");
  states_ = nic_states(tree_.roots(), machine::NicGuard(tree_.roots()));
  EXPECT_THAT(bind_command(states_, {.name = "eth3", .driver = ""}),
              ElementsAre("driverctl", "set-override", "0000:00:08.0", "igb_uio"));
  for (const bool is_forced : {false, true}) {
    EXPECT_EQ(refusal({.name = "eth3", .driver = "uio_pci_generic", .is_forced = is_forced}),
              "0000:00:08.0 is an Intel virtual function (iavf), which gets no interrupt through "
              "uio_pci_generic, allowed: igb_uio");
  }
  EXPECT_THAT(refusal({.name = "eth3", .driver = "vfio-pci"}),
              HasSubstr("allowed: igb_uio, or --force"));
}

TEST_F(NicTest, BindKeepsAVirtioNicThatBypassesTheIommuFromVfio) {
  tree_.add_nic("0000:00:09.0", "0x1af4 0x1041", "virtio-pci", "");
  const std::string folder = "sys/bus/pci/devices/0000:00:09.0/";
  tree_.write(folder + "virtio1/features", "0000010000000000000000000000000010\n");
  tree_.link(folder + "iommu_group", "sys/kernel/iommu_groups/9");
  states_ = nic_states(tree_.roots(), machine::NicGuard(tree_.roots()));
  EXPECT_THAT(bind_command(states_, {.name = "00:09.0", .driver = ""}),
              ElementsAre("driverctl", "set-override", "0000:00:09.0", "uio_pci_generic"));
  for (const bool is_forced : {false, true}) {
    EXPECT_EQ(refusal({.name = "00:09.0", .driver = "vfio-pci", .is_forced = is_forced}),
              "0000:00:09.0 is a virtio NIC that bypasses the IOMMU, so that vfio-pci gives it "
              "addresses that its host does not translate, allowed: uio_pci_generic, or "
              "iommu_platform=on at its host");
  }
}

// The kernel would lose the interface, and lyred would not have it.
TEST_F(NicTest, BindRefusesWhatLyredWouldNotDrive) {
  note_refusals(states_, "lyred: 0000:00:05.0: needs another DPDK, allowed: lyred of Debian 13\n");
  EXPECT_EQ(refusal({.name = "eth1", .driver = ""}),
            "0000:00:05.0: needs another DPDK, allowed: lyred of Debian 13, or --force");
  EXPECT_THAT(bind_command(states_, {.name = "eth1", .driver = "", .is_forced = true}),
              Contains("igb_uio"));
  EXPECT_EQ(refusal({.name = "00:06.0", .driver = ""}), "");
  note_refusals(states_, "lyred: The following argument was not expected: --check-nics\n");
  EXPECT_EQ(refusal({.name = "00:06.0", .driver = ""}), "")
      << "of a lyred that knows no such option";
}

TEST_F(NicTest, BindRefusesADriverThatTheKernelDoesNotHave) {
  const auto refusal_of = [this](const std::string& driver) -> std::string {
    try {
      check_driver_is_available(nic_named(states_, "eth1").nic, driver, tree_.roots(),
                                tree_.path("modules"));
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "";
  };
  EXPECT_EQ(refusal_of("igb_uio"), "") << "without an index it cannot be told";
  tree_.write("modules/modules.dep", "kernel/drivers/uio/uio.ko.xz:\n");
  EXPECT_EQ(refusal_of("igb_uio"),
            "0000:00:05.0 needs the kernel module igb_uio, which this kernel does not have, "
            "allowed: " +
                machine::remedy_for("igb_uio"));
  EXPECT_THAT(refusal_of("uio_pci_generic"), HasSubstr("allowed: a kernel that has it"));
  tree_.write("etc/os-release", "ID=ubuntu\n");
  EXPECT_THAT(refusal_of("uio_pci_generic"),
              HasSubstr("allowed: apt install linux-modules-extra-$(uname -r)"));
  tree_.write("sys/module/igb_uio/refcnt", "0\n");
  EXPECT_EQ(refusal_of("igb_uio"), "");
}

TEST_F(NicTest, AFailedBindSaysWhatBecameOfTheNic) {
  std::vector<NicState> now = {nic_named(states_, "eth1")};
  machine::Nic& nic = now[0].nic;
  const auto after = [&](const std::string& driver, const std::string& section) {
    return after_failed_bind(now, "0000:00:05.0", driver, section);
  };
  EXPECT_EQ(after("uio_pci_generic", "section\n"),
            "0000:00:05.0 is still with its kernel driver ena\n");
  EXPECT_THAT(after("igb_uio", ""),
              HasSubstr("igb_uio is provided by: apt install linux-headers-$(uname -r)"));
  nic.boot_driver = "uio_pci_generic";
  EXPECT_EQ(after("uio_pci_generic", "section\n"),
            "0000:00:05.0 is still with its kernel driver ena until the next boot, and then with "
            "uio_pci_generic; `lyre nic unbind 0000:00:05.0` takes that back\n");
  nic.driver = "";
  EXPECT_EQ(after("uio_pci_generic", "section\n"),
            "0000:00:05.0 has lost its kernel driver; `lyre nic unbind 0000:00:05.0` gives it "
            "back. It was configured as:\nsection\n");
  now.clear();
  EXPECT_EQ(after("uio_pci_generic", "section\n"),
            "0000:00:05.0 is not there any more. It was configured as:\nsection\n");
}

// The kernel no longer has the addresses of a NIC that is bound.
TEST(PortSectionTest, WhatOneStreamDoesNotTakeTheOtherGets) {
  std::ostringstream out, instead;
  print_section("section\n", out, instead);
  EXPECT_EQ(out.str(), "section\n");
  EXPECT_EQ(instead.str(), "");
  std::ofstream full("/dev/full");
  print_section("section\n", full, instead);
  EXPECT_EQ(instead.str(),
            "the section of lyred.toml was not written to standard output:\nsection\n");
}

TEST_F(NicTest, UnbindUndoesIt) {
  EXPECT_THAT(unbind_command(states_, "00:06.0"),
              ElementsAre("driverctl", "unset-override", "0000:00:06.0"));
}

TEST_F(NicTest, UnbindLeavesANicThatIsWithItsKernelDriver) {
  EXPECT_THAT(unbind_command(states_, "eth0"), IsEmpty());  // carries the default route
  EXPECT_THAT(unbind_command(states_, "eth1"), IsEmpty());
  tree_.write("sys/bus/pci/devices/0000:00:05.0/driver_override", "igb_uio\n");
  states_ = nic_states(tree_.roots(), machine::NicGuard(tree_.roots()));
  EXPECT_THAT(unbind_command(states_, "eth1"),
              ElementsAre("driverctl", "unset-override", "0000:00:05.0"));
}

TEST_F(NicTest, ANicWithoutIommuNeedsADropInAndHugepages) {
  tree_.write("proc/meminfo", "MemTotal: 1000 kB\nHugepagesize:       2048 kB\n");
  tree_.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n");
  const std::string etc = tree_.path("etc");
  const std::string folder = etc + "/systemd/system/lyred.service.d";
  const std::string sysctl = etc + "/sysctl.d/60-lyre-nic.conf";
  const std::string at_boot = etc + "/systemd/system/driverctl@pci-0000:00:05.0.service.d";
  const std::string asks = "ExecCondition=/usr/bin/lyre nic is-at 0000:00:05.0 1d0f:ec20";
  EXPECT_THAT(
      prepare("eth1", "igb_uio"),
      ElementsAre(ElementsAre("mkdir", "-p", folder),
                  ElementsAre("ln", "-s", "/shipped/no-iommu.conf", folder),
                  ElementsAre("mkdir", "-p", at_boot),
                  ElementsAre("sh", "-c",
                              "printf \"%s\\n\" \"[Service]\" \"" + asks + "\" > " + at_boot +
                                  "/lyre.conf"),
                  ElementsAre("systemctl", "daemon-reload"),
                  ElementsAre("sh", "-c", "printf \"%s\\n\" \"vm.nr_hugepages=192\" > " + sysctl),
                  ElementsAre("sh", "-c", std::string("echo 192 > ") + kPagesFile)));
  EXPECT_EQ(prepare("eth1", "vfio-pci"), prepare("eth1", "igb_uio"));  // it is behind no IOMMU
}

// 50 Gb/s have four workers, and packets of 9001 bytes larger pools.
TEST_F(NicTest, AFastNicNeedsMoreHugepages) {
  tree_.write("proc/meminfo", "Hugepagesize:       2048 kB\n");
  tree_.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n");
  tree_.write("sys/class/net/eth1/speed", "50000\n");
  tree_.write("sys/class/net/eth1/mtu", "9001\n");
  const std::string sysctl = tree_.path("etc/sysctl.d/60-lyre-nic.conf");
  EXPECT_THAT(prepare("eth1", "igb_uio"),
              Contains(Contains(HasSubstr("\"vm.nr_hugepages=306\" > " + sysctl))));
  EXPECT_THAT(prepare("eth1", "igb_uio"), Contains(Contains(HasSubstr("echo 306 > "))));
}

TEST_F(NicTest, WhatIsThereIsNotPreparedAgain) {
  tree_.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "64\n");
  tree_.write("proc/cmdline", "hugepagesz=2M hugepages=64\n");
  tree_.write("etc/systemd/system/lyred.service.d/no-iommu.conf", "");
  bind_at_boot("eth1");
  EXPECT_THAT(prepare("eth1", "igb_uio"), IsEmpty());
}

// Packet pools have pages of 2 MiB, also where the machine was started with default_hugepagesz=1G.
TEST_F(NicTest, HugepagesOfAnotherSizeDoNotCount) {
  tree_.write("proc/meminfo", "Hugepagesize:    1048576 kB\n");
  tree_.write("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "8\n");
  tree_.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n");
  const std::string pool = kPagesFile;
  const std::string file = tree_.path("etc/tmpfiles.d/lyre-nic.conf");
  const Commands prepared = prepare("eth1", "igb_uio");
  EXPECT_THAT(prepared, Contains(Contains(HasSubstr("\"w " + pool + " - - - - 192\" > " + file))));
  EXPECT_THAT(prepared, Contains(Contains("echo 192 > " + pool)));
  tree_.write("etc/systemd/system/lyred.service.d/no-iommu.conf", "");
  tree_.write("etc/tmpfiles.d/lyre-nic.conf", "w " + pool + " - - - - 192\n");
  tree_.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "192\n");
  const Commands undone = unprepare("eth1");
  EXPECT_THAT(undone, Contains(ElementsAre("rm", file)));
  EXPECT_THAT(undone, Contains(Contains("echo 0 > " + pool)));
}

TEST_F(NicTest, ANicBehindAnIommuNeedsNothing) {
  bind_at_boot("0000:00:06.0");
  EXPECT_THAT(prepare("0000:00:06.0", "vfio-pci"), IsEmpty());
}

TEST_F(NicTest, ANicOfTheKernelNeedsItsDropIn) {
  EXPECT_THAT(prepare("eth2", ""), Contains(Contains("/shipped/beside-kernel-driver.conf")));
  EXPECT_THAT(prepare("eth2", ""), Not(Contains(Contains("sh")))) << "no boot, no hugepages";
}

TEST_F(NicTest, UnbindLeavesANicOfTheKernelWithItsDriver) {
  EXPECT_THAT(unbind_command(states_, "eth2"), IsEmpty());
  states_[3].nic.driver = "vfio-pci";  // by --driver
  states_[3].nic.override_driver = "vfio-pci";
  EXPECT_THAT(unbind_command(states_, "00:07.0"), Contains("unset-override"));
}

TEST_F(NicTest, UnbindTakesBackTheDropInOfANicOfTheKernel) {
  const std::string folder = tree_.path("etc/systemd/system/lyred.service.d");
  EXPECT_THAT(unprepare("eth2"), IsEmpty());  // nothing is there
  tree_.write("etc/systemd/system/lyred.service.d/beside-kernel-driver.conf", "");
  tree_.write("etc/systemd/system/lyred.service.d/no-iommu.conf", "");
  EXPECT_THAT(unprepare("eth2"),
              ElementsAre(ElementsAre("rm", folder + "/beside-kernel-driver.conf"),
                          ElementsAre("rmdir", "--ignore-fail-on-non-empty", folder),
                          ElementsAre("systemctl", "daemon-reload")));
  // Its own port may still be configured.
  tree_.write("etc/lyre/lyred.toml", "[[port]]\ndevice = \"0000:00:07.0\"\n");
  EXPECT_THAT(unprepare("eth2"), Not(IsEmpty()));
}

TEST_F(NicTest, UnbindLeavesTheDropInThatAnotherPortNeeds) {
  tree_.write("etc/systemd/system/lyred.service.d/beside-kernel-driver.conf", "");
  tree_.add_nic("0000:00:08.0", "0x15b3 0x1019", "mlx5_core", "eth3");
  states_ = nic_states(tree_.roots(), machine::NicGuard(tree_.roots()));
  EXPECT_THAT(unprepare("eth2"), Not(IsEmpty()));  // eth3 is there, and no port is on it
  EXPECT_THAT(kept("eth2"), IsEmpty());
  tree_.write("etc/lyre/lyred.toml",
              "[[port]]\ndevice = \"0000:00:07.0\"\n[[port]]\ndevice = \"00:08.0,a=1\"\n");
  EXPECT_THAT(unprepare("eth2"), IsEmpty());
  EXPECT_THAT(kept("eth2"), ElementsAre("beside-kernel-driver.conf stays: 00:08.0,a=1 needs it"));
}

TEST_F(NicTest, AFileThatIsNoTomlConfiguresNoPort) {
  EXPECT_THAT(configured_devices(tree_.path("none.toml")), IsEmpty());
  tree_.write("wrong.toml", "port = [\n");
  EXPECT_THAT(configured_devices(tree_.path("wrong.toml")), IsEmpty());
  tree_.write("odd.toml", "[[port]]\ndevice = 7\n[[port]]\nname = \"a\"\n");
  EXPECT_THAT(configured_devices(tree_.path("odd.toml")), IsEmpty());
  EXPECT_THAT(configured_cores(tree_.path("odd.toml")), IsEmpty());
  tree_.write("cores.toml", "[workers]\ncores = [3, 2]\n");
  EXPECT_THAT(configured_cores(tree_.path("cores.toml")), ElementsAre(3, 2));
}

TEST_F(NicTest, UnbindTakesBackWhatNoOtherNicNeeds) {
  EXPECT_THAT(unprepare("eth1"), IsEmpty());  // nothing is there
  tree_.write("etc/systemd/system/lyred.service.d/no-iommu.conf", "");
  tree_.write("etc/sysctl.d/60-lyre-nic.conf", "vm.nr_hugepages=192\n");
  tree_.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "192\n");
  const Commands undone = unprepare("eth1");
  EXPECT_THAT(undone, Contains(Contains("systemctl")));
  EXPECT_THAT(undone, Contains(Contains(std::string("echo 0 > ") + kPagesFile)));
  EXPECT_THAT(kept("eth1"), IsEmpty());
  states_[0].nic.override_driver = "uio_pci_generic";
  EXPECT_THAT(unprepare("eth1"), IsEmpty());
  EXPECT_THAT(kept("eth1"), ElementsAre("no-iommu.conf stays: 0000:00:03.0 needs it"));
}

// A database's would be gone.
TEST_F(NicTest, UnbindLeavesHugepagesThatOthersHaveReserved) {
  const std::string file = tree_.path("etc/sysctl.d/60-lyre-nic.conf");
  tree_.write("etc/sysctl.d/60-lyre-nic.conf", "vm.nr_hugepages=192\n");
  tree_.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "1192\n");
  EXPECT_THAT(unprepare("eth1"), ElementsAre(ElementsAre("rm", file)));
  EXPECT_THAT(kept("eth1"),
              ElementsAre("1192 hugepages of 2 MiB stay: " + file + " did not reserve so many"));
}

// bind asked for 192, and the kernel found 150.
TEST_F(NicTest, UnbindGivesBackHugepagesOfFragmentedMemory) {
  tree_.write("etc/sysctl.d/60-lyre-nic.conf", "vm.nr_hugepages=192\n");
  tree_.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "150\n");
  EXPECT_THAT(unprepare("eth1"), Contains(Contains(HasSubstr("echo 0 > "))));
  EXPECT_THAT(kept("eth1"), IsEmpty());
  tree_.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n");
  EXPECT_THAT(unprepare("eth1"), Not(Contains(Contains(HasSubstr("echo 0 > ")))));
  EXPECT_THAT(kept("eth1"), IsEmpty());
}

TEST_F(VmbusNicTest, ListShowsThem) {
  const std::string text = nics_text(states_);
  EXPECT_THAT(text, HasSubstr("vmbus:" + std::string(kFirst) +
                              "  netvsc     eth8       hv_netvsc   -           no        0  this "
                              "machine's default route\n"));
  EXPECT_THAT(text, HasSubstr("vmbus:" + std::string(kSecond) + "  netvsc     eth9"));
  const auto json = nlohmann::json::parse(nics_json(states_));
  EXPECT_EQ(json["nics"].back()["device"],
            "vmbus:" + std::string(kSecond) + ",mac=00:0d:3a:00:00:02");
}

TEST_F(VmbusNicTest, BindPreparesAllThatTheNicNeeds) {
  EXPECT_THAT(bind_command(states_, {.name = "eth9", .driver = ""}),
              ElementsAre("driverctl", "-b", "vmbus", "set-override", kSecond, "uio_hv_generic"));
  EXPECT_THAT(refusal({.name = "eth8", .driver = ""}), HasSubstr("this machine's default route"));
  EXPECT_THAT(refusal({.name = "eth9", .driver = "igb_uio"}),
              HasSubstr("is on the VMbus, allowed: uio_hv_generic"));
  EXPECT_THAT(port_section(nic_named(states_, "eth9"), {}),
              HasSubstr("device = \"vmbus:" + std::string(kSecond) + ",mac=00:0d:3a:00:00:02\"\n"));
  const Commands prepared = prepare("eth9", "uio_hv_generic");
  EXPECT_THAT(prepared, Contains(Contains("/shipped/no-iommu.conf")));
  EXPECT_THAT(prepared, Contains(Contains("/shipped/beside-kernel-driver.conf")));
  EXPECT_THAT(prepared, Contains(Contains(HasSubstr("vm.nr_hugepages="))));
}

TEST_F(VmbusNicTest, UnbindTakesItBack) {
  const std::string device = "vmbus:" + std::string(kSecond);
  EXPECT_THAT(unbind_command(states_, device), IsEmpty());  // it is with hv_netvsc
  tree_.write("sys/bus/vmbus/devices/" + std::string(kSecond) + "/driver_override",
              "uio_hv_generic\n");
  states_ = nic_states(tree_.roots(), machine::NicGuard(tree_.roots()));
  EXPECT_THAT(unbind_command(states_, device),
              ElementsAre("driverctl", "-b", "vmbus", "unset-override", kSecond));
  tree_.write("etc/systemd/system/lyred.service.d/no-iommu.conf", "");
  tree_.write("etc/systemd/system/lyred.service.d/beside-kernel-driver.conf", "");
  tree_.write("etc/lyre/lyred.toml",
              "[[port]]\ndevice = \"" + device + ",mac=00:0d:3a:00:00:02\"\n");
  const Commands undone = unprepare("eth9");
  EXPECT_EQ(undone.size(), 4u);  // two drop-ins, their folder, systemd
  // Another one on the VMbus needs both.
  tree_.write("etc/lyre/lyred.toml", "[[port]]\ndevice = \"vmbus:" + std::string(kFirst) + "\"\n");
  EXPECT_THAT(unprepare("eth9"), IsEmpty());
  EXPECT_THAT(unprepare("0000:00:05.0"), IsEmpty());
}

}  // namespace
}  // namespace lyre::tools
