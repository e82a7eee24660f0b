#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/unit/tools/nic_machine.h"
#include "tools/lyre/nic/running_ports.h"

// What `lyre nic` leaves for the next boots, and what it does not do under a daemon.
namespace lyre::tools {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// After the next boot there were none, and a NIC without an IOMMU did not start.
TEST_F(NicTest, HugepagesThatOnlyThisBootHasAreReservedForTheNextOnes) {
  const std::string mark = "\"# others had reserved hugepages when this was written\" ";
  const std::string to = " > " + tree_.path("etc/sysctl.d/60-lyre-nic.conf").string();
  tree_.write("proc/meminfo", "Hugepagesize:       2048 kB\n");
  tree_.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "64\n");
  EXPECT_THAT(prepare("eth1", "igb_uio"),
              Contains(Contains(HasSubstr(mark + "\"vm.nr_hugepages=192\"" + to))));
  tree_.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "1000\n");
  const Commands prepared = prepare("eth1", "igb_uio");
  EXPECT_THAT(prepared, Contains(Contains(HasSubstr(mark + "\"vm.nr_hugepages=1000\"" + to))));
  EXPECT_THAT(prepared, Not(Contains(Contains(HasSubstr(kPagesFile))))) << "now there are some";
  tree_.write("etc/sysctl.d/10-own.conf", "vm.nr_hugepages=0\n");
  EXPECT_THAT(prepare("eth1", "igb_uio"), Contains(Contains(HasSubstr("vm.nr_hugepages=1000"))));
}

TEST_F(NicTest, HugepagesThatOnlyABootReservesAreReservedNow) {
  tree_.write("proc/meminfo", "Hugepagesize:       2048 kB\n");
  tree_.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n");
  tree_.write("etc/sysctl.d/10-own.conf", "vm.nr_hugepages=500\n");
  const Commands prepared = prepare("eth1", "igb_uio");
  EXPECT_THAT(prepared, Contains(Contains(std::string("echo 192 > ") + kPagesFile)));
  EXPECT_THAT(prepared, Not(Contains(Contains(HasSubstr("60-lyre-nic.conf")))));
}

// They were there before, and bind did not raise them.
TEST_F(NicTest, UnbindLeavesHugepagesThatItDidNotRaise) {
  const std::string file = tree_.path("etc/sysctl.d/60-lyre-nic.conf");
  tree_.write("etc/sysctl.d/60-lyre-nic.conf",
              "# others had reserved hugepages when this was written\nvm.nr_hugepages=192\n");
  tree_.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "64\n");
  EXPECT_THAT(unprepare("eth1"), ElementsAre(ElementsAre("rm", file)));
  EXPECT_THAT(kept("eth1"), ElementsAre("64 hugepages of 2 MiB stay: " + file +
                                        " was written when others had reserved some"));
}

// driverctl binds what lies at the address: after the machine was changed that may be the only NIC.
TEST_F(NicTest, ABootAsksForTheNicThatWasBound) {
  const std::string folder = tree_.path("etc/systemd/system/driverctl@pci-0000:00:05.0.service.d");
  tree_.write("sys/class/net/eth1/address", "02:00:00:00:00:01\n");
  look_again();
  EXPECT_THAT(
      prepare("eth1", "vfio-pci"),
      Contains(Contains(HasSubstr("nic is-at 0000:00:05.0 1d0f:ec20 02:00:00:00:00:01\""))));
  bind_at_boot("eth1");
  const auto is_written = Contains(Contains(HasSubstr("nic is-at")));
  EXPECT_THAT(prepare("eth1", "vfio-pci"), Not(is_written));
  EXPECT_THAT(unprepare("eth1"),
              ElementsAre(ElementsAre("rm", folder + "/lyre.conf"),
                          ElementsAre("rmdir", "--ignore-fail-on-non-empty", folder),
                          ElementsAre("systemctl", "daemon-reload")));
  // Once it is bound it has no interface, and what was written knows its address.
  std::filesystem::remove_all(tree_.path("sys/bus/pci/devices/0000:00:05.0/net"));
  look_again();
  EXPECT_THAT(prepare("0000:00:05.0", "vfio-pci"), Not(is_written));
}

TEST_F(NicTest, TheNicThatWasBoundIsKnownByItsIdAndItsMac) {
  const auto why = [this](const NicIdentity& wanted) {
    return why_not_at(machine::pci_nics(tree_.roots()), wanted);
  };
  tree_.write("sys/class/net/eth1/address", "02:00:00:00:00:01\n");
  const std::string mac = "02:00:00:00:00:01";
  EXPECT_EQ(why({"0000:00:05.0", "1d0f:ec20", mac}), "");
  EXPECT_EQ(why({"0000:00:05.0", "1d0f:ec20", ""}), "");
  EXPECT_EQ(why({"0000:00:06.0", "8086:154c", mac}), "") << "it has no interface";
  EXPECT_EQ(why({"0000:00:05.0", "8086:154c", ""}),
            "0000:00:05.0 is not bound: `lyre nic bind` was for 8086:154c, and 1d0f:ec20 is there, "
            "allowed: rm /etc/driverctl.d/pci-0000:00:05.0, and lyre nic bind for the NIC at its "
            "present address");
  EXPECT_THAT(why({"0000:00:05.0", "1d0f:ec20", "02:00:00:00:00:02"}),
              HasSubstr("and one with MAC address 02:00:00:00:00:01 is there"));
  tree_.write("sys/bus/pci/devices/0000:00:09.0/class", "0x010802\n");  // NVMe
  EXPECT_THAT(why({"0000:00:09.0", "1d0f:ec20", ""}), HasSubstr("no Ethernet NIC is there"));
  tree_.write("sys/class/net/eth1/addr_assign_type", "1\n");  // drawn at each boot
  EXPECT_EQ(why({"0000:00:05.0", "1d0f:ec20", "02:00:00:00:00:02"}), "");
}

// The unit was refused: driverctl would take the NIC from its driver for a moment.
TEST_F(NicTest, UnbindOfANicThatABootDidNotBindForgetsItOnly) {
  tree_.write("etc/driverctl.d/pci-0000:00:05.0", "igb_uio\n");
  look_again();
  EXPECT_THAT(unbind_command(states_, "eth1"),
              ElementsAre("rm", "/etc/driverctl.d/pci-0000:00:05.0"));
}

// The kernel's driver and lyred's would use one NIC.
TEST_F(NicTest, ANicOfADaemonThatRunsIsLeftAlone) {
  const machine::Nic& nic = nic_named(states_, "0000:00:06.0").nic;
  EXPECT_NO_THROW(refuse_in_use(nic, {}));
  EXPECT_NO_THROW(refuse_in_use(nic, {"0000:00:05.0", "net_memif0"}));
  try {
    refuse_in_use(nic, {"net_memif0", "00:06.0,arg=1"});
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(),
                 "0000:00:06.0 is a port of the lyred that runs, allowed: systemctl stop lyred "
                 "before, or --force");
  }
  tree_.write("lyred.toml", "[[port]]\ndevice = \"0000:00:06.0\"\n");
  EXPECT_THAT(devices_in_use(tree_.path("no.sock"), tree_.path("lyred.toml")), IsEmpty());
}

TEST_F(NicTest, UnbindNamesTheSectionsThatAreLeft) {
  const machine::Nic& nic = nic_named(states_, "0000:00:06.0").nic;
  EXPECT_THAT(sections_left(nic, "lyred.toml", {"0000:00:05.0", "00:06.0"}),
              ElementsAre("lyred.toml still has the [[port]] with device = \"00:06.0\": remove it "
                          "before lyred starts"));
}

// driverctl's unit calls it with '/' for each '-' of the UUID, and it finds no such device.
TEST_F(VmbusNicTest, ABootBindsItByTheDropInOnly) {
  const std::string unit = "etc/systemd/system/driverctl@vmbus-" + std::string(kSecond);
  const std::string file = tree_.path(unit + ".service.d/lyre.conf");
  const std::string starts =
      "ExecStart=/usr/sbin/driverctl -b vmbus load-override " + std::string(kSecond);
  EXPECT_THAT(
      prepare("eth9", "uio_hv_generic"),
      Contains(Contains(HasSubstr("\"[Service]\" \"ExecStart=\" \"" + starts + "\" > " + file))));
  tree_.write("etc/driverctl.d/vmbus-" + std::string(kSecond), "uio_hv_generic\n");
  look_again();
  EXPECT_EQ(nic_named(states_, "eth9").nic.boot_driver, "");
  tree_.write(unit + ".service.d/lyre.conf", "[Service]\nExecStart=\n" + starts + "\n");
  look_again();
  EXPECT_EQ(nic_named(states_, "eth9").nic.boot_driver, "uio_hv_generic");
  EXPECT_THAT(prepare("eth9", "uio_hv_generic"), Not(Contains(Contains(HasSubstr("[Service]")))));
  EXPECT_THAT(unprepare("eth9"), Contains(ElementsAre("rm", file)));
}

}  // namespace
}  // namespace lyre::tools
