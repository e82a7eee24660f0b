#include "daemon/host/machine_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "daemon/host/machine_check.h"
#include "tests/unit/machine/tree.h"

namespace lyre {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MachineProbeTest : public ::testing::Test {
 protected:
  MachineProbeTest() {
    tree_.add_nic("0000:00:05.0", "0x1d0f 0xec20", "ena", "eth1");
    tree_.add_nic("0000:00:06.0", "0x1af4 0x1041", "vfio-pci", "");
    tree_.add_nic("0000:00:07.0", "0x15b3 0x1019", "mlx5_core", "eth2");
  }
  std::vector<std::string> probe(const std::string& port, const std::string& rest = "") {
    const std::string text =
        "[daemon]\nsocket = \"" + tree_.path("l.sock").string() + "\"\nsocket_group = \"\"\n" +
        rest + "[[port]]\nname = \"a\"\naddress = \"10.9.0.1/24\"\ndevice = \"" + port + "\"\n";
    auto config = parse_config(text, "f");
    EXPECT_TRUE(config.ok()) << config.error().text;
    return config.ok() ? probe_machine(*config, tree_.roots()) : std::vector<std::string>{};
  }

  machine::Tree tree_;
};

TEST_F(MachineProbeTest, WhatIsThereIsRight) {
  EXPECT_THAT(probe("0000:00:06.0"), ElementsAre());
  EXPECT_THAT(probe("00:06.0,queues=2"), ElementsAre());
  EXPECT_THAT(probe("0000:00:07.0"), ElementsAre());  // beside its kernel driver
  EXPECT_THAT(probe("net_af_packet0,iface=eth1"), ElementsAre());
  EXPECT_THAT(probe("net_tap0,iface=new0"), ElementsAre());
  EXPECT_THAT(probe("net_memif0,socket=" + tree_.path("new/wire.sock").string()), ElementsAre());
}

// Nobody could attach, and each program heard that only when it tried.
TEST_F(MachineProbeTest, AShareOfMemoryBelowTheSmallestContextIsNamed) {
  auto config = parse_config("[daemon]\nsocket = \"" + tree_.path("l.sock").string() +
                                 "\"\nsocket_group = \"\"\n[workers]\ncores = [1]\n[clients]\n"
                                 "arena_bytes_per_uid_max = 2097152\n[[port]]\nname = \"a\"\n"
                                 "address = \"10.9.0.1/24\"\ndevice = \"0000:00:06.0\"\n",
                             "f");
  ASSERT_TRUE(config.ok()) << config.error().text;
  EXPECT_THAT(probe_machine(*config, tree_.roots()),
              ElementsAre(StartsWith("f: clients.arena_bytes_per_uid_max: 2097152 lets no client "
                                     "attach: with 1 worker(s) rings, copy area")));
  config->arena_bytes_per_uid_max = 8 << 20;
  EXPECT_THAT(probe_machine(*config, tree_.roots()), ElementsAre());
  config->cores.resize(64, 1);
  EXPECT_EQ(probe_machine(*config, tree_.roots()).size(), 1u) << "24 MiB";
}

TEST_F(MachineProbeTest, AnAbsentNicNamesThoseThatAreThere) {
  EXPECT_THAT(probe("0000:00:0b.0"),
              ElementsAre("f:7: port.device: '0000:00:0b.0' of 'a' is no NIC of this machine, "
                          "allowed: 0000:00:05.0, 0000:00:06.0, 0000:00:07.0"));
}

TEST_F(MachineProbeTest, ANicOfTheKernelNamesTheCommandThatBindsIt) {
  EXPECT_THAT(
      probe("0000:00:05.0"),
      ElementsAre(HasSubstr("is bound to ena, allowed: vfio-pci, uio_pci_generic or igb_uio "
                            "(lyre nic bind 0000:00:05.0)")));
}

TEST_F(MachineProbeTest, AnInterfacesNameIsNoDevice) {
  EXPECT_THAT(probe("eth1"), ElementsAre(HasSubstr("is a kernel interface, allowed: its PCI")));
  EXPECT_THAT(probe("f8615163-0000-1000-2000-6045bd7a8d7c"),
              ElementsAre(HasSubstr("is neither a NIC nor a virtual device")));
}

TEST_F(MachineProbeTest, ANicOnTheVmbusAndItsFunction) {
  const std::string id = "6045bd7a-8d7c-6045-bd7a-8d7c6045bd7a";
  const std::string folder = "sys/bus/vmbus/devices/" + id;
  tree_.write(folder + "/class_id", "{f8615163-df3e-46c5-913f-f2d2f965ed0e}\n");
  EXPECT_THAT(
      probe("vmbus:6045bd7a-0000-6045-bd7a-00006045bd7a"),
      ElementsAre(HasSubstr("is no NIC on the VMbus of this machine, allowed: vmbus:" + id)));
  tree_.link(folder + "/driver", "sys/bus/vmbus/drivers/hv_netvsc");
  EXPECT_THAT(probe("vmbus:" + id),
              ElementsAre(HasSubstr("is bound to hv_netvsc, allowed: uio_hv_generic (driverctl -b "
                                    "vmbus set-override " +
                                    id + " uio_hv_generic)")));
  std::filesystem::remove(tree_.path(folder + "/driver"));
  tree_.link(folder + "/driver", "sys/bus/vmbus/drivers/uio_hv_generic");
  EXPECT_THAT(probe("vmbus:" + id), ElementsAre());
  EXPECT_THAT(probe("vmbus:" + id + ",mac=00:0d:3a:00:00:01"),
              ElementsAre(HasSubstr("names a virtual function with the MAC address")));
  tree_.add_nic("7870:00:00.0", "0x1414 0x00ba", "mana", "eth3");
  tree_.write("sys/class/net/eth3/address", "00:0d:3a:00:00:01\n");
  tree_.write("sys/class/net/eth3/flags", "0x1003\n");
  EXPECT_THAT(
      probe("vmbus:" + id + ",mac=00:0d:3a:00:00:01"),
      ElementsAre(HasSubstr("is used by the kernel as eth3, allowed: ip link set eth3 down")));
  EXPECT_THAT(probe("7870:00:00.0"), ElementsAre(HasSubstr("allowed: mac= of one of them")));
  tree_.write("sys/class/net/eth3/flags", "0x1002\n");
  EXPECT_THAT(probe("vmbus:" + id + ",mac=00:0d:3a:00:00:01"), ElementsAre());
  EXPECT_THAT(probe("7870:00:00.0,mac=00:0d:3a:00:00:01"), ElementsAre());
}

TEST_F(MachineProbeTest, AnAbsentInterface) {
  EXPECT_THAT(probe("net_af_packet0,iface=eth9"),
              ElementsAre(HasSubstr("is on eth9, which is missing, allowed: iface= one of eth1, "
                                    "eth2")));
  EXPECT_THAT(probe("net_af_xdp0"), ElementsAre(HasSubstr("names no interface")));
  EXPECT_THAT(probe("net_tap0,iface=new0,remote=eth9"), ElementsAre(HasSubstr("eth9")));
}

TEST_F(MachineProbeTest, AnInterfaceWithoutEthernet) {
  constexpr const char* kInfiniband = "32\n";
  tree_.write("sys/class/net/eth1/type", kInfiniband);
  EXPECT_THAT(probe("net_af_packet0,iface=eth1"),
              ElementsAre(HasSubstr("is on eth1, which carries no Ethernet frames")));
  tree_.write("sys/class/net/eth1/type", "1\n");
  EXPECT_THAT(probe("net_af_packet0,iface=eth1"), ElementsAre());
}

TEST_F(MachineProbeTest, AnMtuThatTheInterfaceDoesNotHave) {
  EXPECT_THAT(
      probe("net_af_packet0,iface=eth1\"\nmtu = 9000 #"),
      ElementsAre(StartsWith("f:8: port.mtu: 9000 of 'a' is more than eth1 has, allowed: up "
                             "to 1500")));
}

TEST_F(MachineProbeTest, AnAddressThatTheKernelHasToo) {
  tree_.write("proc/net/fib_trie", "     |-- 10.9.0.1\n        /32 host LOCAL\n");
  EXPECT_THAT(probe("0000:00:06.0"),
              ElementsAre(HasSubstr("10.9.0.1 of 'a' is an address of this machine's kernel")));
}

TEST_F(MachineProbeTest, MissingDirectories) {
  EXPECT_THAT(probe("net_memif0,socket=" + tree_.path("a/b/wire.sock").string()),
              ElementsAre(HasSubstr("has its socket below")));
  auto config = parse_config(
      "[daemon]\nsocket = \"/nonexistent/a/l.sock\"\nsocket_group = \"lyre-no-such\"\n[[port]]\n"
      "name = \"a\"\ndevice = \"net_tap0\"\naddress = \"10.9.0.1/24\"\n",
      "f");
  ASSERT_TRUE(config.ok());
  EXPECT_THAT(probe_machine(*config, tree_.roots()),
              ElementsAre(StartsWith("f:2: daemon.socket: the directory /nonexistent is missing"),
                          StartsWith("f:3: daemon.socket_group: there is no group")));
}

// The start makes it: what starts is right.
TEST_F(MachineProbeTest, TheLastDirectoryOfASocketMayBeMissing) {
  auto config =
      parse_config("[daemon]\nsocket = \"" + tree_.path("new/l.sock").string() +
                       "\"\nsocket_group = \"\"\n[[port]]\nname = \"a\"\ndevice = \"net_tap0\"\n"
                       "address = \"10.9.0.1/24\"\n",
                   "f");
  ASSERT_TRUE(config.ok());
  EXPECT_THAT(probe_machine(*config, tree_.roots()), ElementsAre());
}

// The start only warns, and the members of the team cannot connect.
TEST_F(MachineProbeTest, SocketsAndGroupsOfDomains) {
  auto config = parse_config(
      "[daemon]\nsocket = \"" + tree_.path("l.sock").string() +
          "\"\n[[port]]\nname = \"a\"\ndevice = \"net_tap0\"\naddress = \"10.9.0.1/24\"\n"
          "[[domain]]\nname = \"a\"\nsocket = \"/nonexistent/a/a.sock\"\n"
          "group = \"lyre-no-such\"\n",
      "f");
  ASSERT_TRUE(config.ok()) << config.error().text;
  EXPECT_THAT(probe_machine(*config, tree_.roots()),
              ElementsAre(StartsWith("f:9: domain.socket: the directory /nonexistent is missing"),
                          StartsWith("f:10: domain.group: there is no group 'lyre-no-such'")));
}

TEST_F(MachineProbeTest, RequiredHugepages) {
  const std::string required = "[memory]\nhugepages = \"yes\"\n";
  EXPECT_THAT(probe("0000:00:06.0", required),
              ElementsAre(StartsWith("f:5: memory.hugepages: hugepages of 2 MiB are required and "
                                     "none is reserved, allowed: ")));
  tree_.write("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "4\n");
  EXPECT_THAT(probe("0000:00:06.0", required),
              ElementsAre(HasSubstr("none is reserved (pages of other sizes are not used: 1 GiB), "
                                    "allowed: ")));
  tree_.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "4\n");
  tree_.write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0\n");
  EXPECT_THAT(probe("0000:00:06.0", required), ElementsAre());
}

TEST_F(MachineProbeTest, TheNicOfTheDefaultRouteHasToBeForced) {
  tree_.write("proc/net/route",
              "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
              "eth1\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n");
  const machine::NicGuard guard(tree_.roots());
  const std::string port =
      "[[port]]\nname=\"a\"\ndevice=\"net_af_packet0,iface=eth1\"\naddress=\"10.9.0.1/24\"\n";
  auto config = parse_config(port, "f.toml");
  ASSERT_TRUE(config.ok());
  const auto errors = check_machine(*config, guard, tree_.roots());
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].text,
            "f.toml:3: port.device: 'net_af_packet0,iface=eth1' of 'a' is eth1, which carries this "
            "machine's default route, allowed: another NIC, or force = true");
  config = parse_config(port + "force = true\n", "f.toml");
  ASSERT_TRUE(config.ok());
  EXPECT_TRUE(check_machine(*config, guard, tree_.roots()).empty());
  EXPECT_EQ(config.value().cores.size(), 1u);
}

// The service tries again: a session ends by itself, another interface may get its default route by
// DHCP later, and nobody may be there to start the service.
TEST_F(MachineProbeTest, WhatTheKernelNeedsThePortsNicForIsAPassingReason) {
  tree_.write("proc/net/route",
              "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
              "eth1\t0000000B\t00000000\t0001\t0\t0\t0\t000000FF\n"
              "eth2\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n");
  tree_.write("proc/net/tcp",
              "  sl  local_address rem_address   st\n   0: 0100000B:0016 0900000B:9C40 01\n");
  const machine::NicGuard guard(tree_.roots());
  for (const char* interface : {"eth1", "eth2"}) {
    auto config = parse_config("[[port]]\nname=\"a\"\ndevice=\"net_af_packet0,iface=" +
                                   std::string(interface) + "\"\naddress=\"10.9.0.1/24\"\n",
                               "f.toml");
    ASSERT_TRUE(config.ok());
    const auto errors = check_machine(*config, guard, tree_.roots());
    ASSERT_EQ(errors.size(), 1u) << interface;
    EXPECT_EQ(errors[0].code, EBUSY) << interface;
  }
}

// Each segment would arrive twice.
TEST_F(MachineProbeTest, TwoPacketSocketsOnOneInterfaceAreRefused) {
  const auto errors_with = [&](const std::string& second) {
    auto config = parse_config(
        "[[port]]\nname=\"a\"\ndevice=\"net_af_packet0,iface=eth1\"\naddress=\"10.9.0.1/24\"\n"
        "[[port]]\nname=\"b\"\ndevice=\"" +
            second + "\"\naddress=\"10.8.0.1/24\"\n",
        "f");
    EXPECT_TRUE(config.ok());
    return check_machine(*config, machine::NicGuard(tree_.roots()), tree_.roots());
  };
  const auto errors = errors_with("net_af_packet1,qpairs=1,iface=eth1");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].code, EINVAL);
  EXPECT_EQ(errors[0].text,
            "f:7: port.device: 'net_af_packet1,qpairs=1,iface=eth1' of 'b' is on eth1, which the "
            "port 'a' has, allowed: another interface, or one port with the addresses of both");
  EXPECT_TRUE(errors_with("net_af_packet1,iface=eth2").empty());
  EXPECT_TRUE(errors_with("net_tap0,iface=eth1").empty());
}

TEST_F(MachineProbeTest, AFileWithErrorsIsComparedAsFarAsItCouldBeRead) {
  tree_.write("f.toml",
              "[daemon]\nlog_level = \"loud\"\n"
              "[[port]]\nname = \"a\"\naddress = \"10.9.0.1/24\"\n"
              "[[port]]\nname = \"b\"\naddress = \"10.9.1.1/24\"\ndevice = \"eth1\"\n");
  const ReadConfig read = read_config(tree_.path("f.toml"));
  EXPECT_THAT(read.errors, HasSubstr("f.toml:2: daemon.log_level: "));
  EXPECT_THAT(read.errors, HasSubstr("f.toml:3: port.device: missing"));
  EXPECT_THAT(probe_machine(read.config, tree_.roots()),
              testing::Contains(HasSubstr("f.toml:9: port.device: 'eth1' of 'b' is a kernel")));
}

TEST_F(MachineProbeTest, EveryCoreThatIsNotThere) {
  auto config = parse_config(
      "[workers]\ncores=[1022, 1023]\n[[port]]\nname=\"a\"\ndevice=\"net_tap0\"\n"
      "address=\"10.9.0.1/24\"\n",
      "f");
  ASSERT_TRUE(config.ok());
  const auto errors = check_machine(*config, machine::NicGuard(tree_.roots()), tree_.roots());
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_THAT(errors[1].text, StartsWith("f:2: workers.cores: core 1023 does not exist"));
}

/// The thread has one core of two, as a shell has none of the isolated ones.
class AffinityTest : public MachineProbeTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(::sched_getaffinity(0, sizeof before_, &before_), 0);
    if (CPU_COUNT(&before_) < 2) GTEST_SKIP() << "one core";
    while (!CPU_ISSET(own_, &before_)) ++own_;
    for (other_ = own_ + 1; !CPU_ISSET(other_, &before_);) ++other_;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(own_, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    tree_.write("sys/devices/system/cpu/online", "0-1023\n");
    tree_.write("sys/devices/system/cpu/isolated", std::to_string(other_) + "\n");
  }
  void TearDown() override { ::sched_setaffinity(0, sizeof before_, &before_); }
  Config config_on(const std::string& cores) const {
    auto config = parse_config("[workers]\ncores = " + cores +
                                   "\n[[port]]\nname=\"a\"\ndevice=\"net_tap0\"\n"
                                   "address=\"10.9.0.1/24\"\n",
                               "f");
    EXPECT_TRUE(config.ok());
    return std::move(*config);
  }
  std::vector<Error> check(Config& config, Cores cores) {
    return check_machine(config, machine::NicGuard(tree_.roots()), tree_.roots(), cores);
  }

  uint32_t own_ = 0;
  uint32_t other_ = 0;
  cpu_set_t before_;
};

// The service starts, with CPUAffinity= in its unit.
TEST_F(AffinityTest, ACheckInAShellTakesACoreThatTheServiceMayHave) {
  const std::string other = std::to_string(other_);
  Config config = config_on("[" + other + "]");
  EXPECT_TRUE(check(config, Cores::kOfService).empty());
  EXPECT_EQ(affinity_text(config, tree_.roots()),
            "isolated cores outside the CPU affinity of this shell: " + other +
                "; the unit of the service needs CPUAffinity=0-1023\n");
  const auto errors = check(config, Cores::kOfThisProcess);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].text, "f:2: workers.cores: core " + other +
                                " is isolated and not in the CPU affinity of this process, "
                                "allowed: " +
                                std::to_string(own_) +
                                ", or CPUAffinity=0-1023 in the unit of the service");
  Config missing = config_on("[1023]");
  EXPECT_EQ(check(missing, Cores::kOfService).size(), 1u);
}

// The shell has fewer cores by taskset; the service has all without CPUAffinity=.
TEST_F(AffinityTest, ACoreThatIsNotIsolatedNeedsNothingInTheUnit) {
  tree_.write("sys/devices/system/cpu/isolated", "\n");
  Config config = config_on("[" + std::to_string(other_) + "]");
  EXPECT_TRUE(check(config, Cores::kOfService).empty());
  EXPECT_EQ(affinity_text(config, tree_.roots()), "");
  EXPECT_EQ(check(config, Cores::kOfThisProcess).size(), 1u);
}

TEST_F(AffinityTest, AutoTakesCoresOfThisProcess) {
  Config config = config_on("\"auto\"");
  EXPECT_TRUE(check(config, Cores::kOfService).empty());
  EXPECT_EQ(config.cores, std::vector{own_});
  EXPECT_EQ(affinity_text(config, tree_.roots()), "");
}

}  // namespace
}  // namespace lyre
