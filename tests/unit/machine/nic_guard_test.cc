#include "machine/nic_guard.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lyre::machine {
namespace {

namespace fs = std::filesystem;

/// A machine whose default route goes over br0, which stands on eth0, a virtio NIC at 0000:00:03.0.
class NicGuardTest : public ::testing::Test {
 protected:
  NicGuardTest() {
    char name[] = "/tmp/lyre-nic-XXXXXX";
    root_ = ::mkdtemp(name);
    fs::create_directories(root_ / "proc/net");
    std::ofstream(root_ / "proc/net/route")
        << "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
           "br0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
           "eth1\t0000000B\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n";
    std::ofstream(root_ / "proc/net/ipv6_route")
        << "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
           "fe800000000000000000000000000001 00000400 00000001 00000000 00000003 eth2\n"
           "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
           "00000000000000000000000000000000 ffffffff 00000001 00000000 00200200 lo\n";
    add_interface("eth0", "0000:00:03.0/virtio0");
    add_interface("eth1", "0000:00:04.0");
    add_interface("eth2", "0000:00:05.0");
    fs::create_directories(root_ / "sys/class/net/br0/lower_eth0");
  }
  ~NicGuardTest() override { fs::remove_all(root_); }

  void add_interface(const std::string& name, const std::string& device) {
    fs::create_directories(root_ / "sys/devices/pci0000:00" / device);
    fs::create_directories(root_ / "sys/class/net" / name);
    fs::create_directory_symlink(root_ / "sys/devices/pci0000:00" / device,
                                 root_ / "sys/class/net" / name / "device");
  }
  std::optional<std::string> lost(const std::string& device) const {
    const auto loss = NicGuard({root_ / "proc", root_ / "sys"}).loss_with(device);
    return loss ? std::optional(loss->interface) : std::nullopt;
  }

  fs::path root_;
};

TEST_F(NicGuardTest, FindsTheNicBelowABridge) {
  EXPECT_EQ(lost("0000:00:03.0"), "eth0");
  EXPECT_EQ(lost("00:03.0,queues=2"), "eth0");
  EXPECT_EQ(lost("net_af_packet0,iface=eth0,qpairs=1"), "eth0");
  EXPECT_EQ(lost("net_af_xdp0,iface=br0"), "br0");
  EXPECT_EQ(lost("net_tap0,remote=eth0"), "eth0");
}

TEST_F(NicGuardTest, KnowsTheIpv6DefaultRouteToo) { EXPECT_EQ(lost("0000:00:05.0"), "eth2"); }

// As clouds configure a second NIC: a default route of its own, which the kernel does not use.
TEST_F(NicGuardTest, LetsADefaultRouteOfAWorseMetricGo) {
  std::ofstream(root_ / "proc/net/route")
      << "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n"
         "eth1\t00000000\t0100000B\t0003\t0\t0\t1024\t00000000\n"
         "eth0\t00000000\t0100000A\t0003\t0\t0\t512\t00000000\n";
  EXPECT_EQ(lost("0000:00:03.0"), "eth0");
  EXPECT_EQ(lost("0000:00:04.0"), std::nullopt);
  EXPECT_EQ(lost("0000:00:05.0"), "eth2") << "the only default route of IPv6";
}

// As a VPN configures it: its packets leave over the default route of a worse metric.
TEST_F(NicGuardTest, GuardsTheNicBelowATunnel) {
  fs::create_directories(root_ / "sys/class/net/tun0");
  std::ofstream(root_ / "proc/net/route")
      << "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n"
         "tun0\t00000000\t0100000C\t0003\t0\t0\t50\t00000000\n"
         "eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\n"
         "eth1\t00000000\t0100000B\t0003\t0\t0\t200\t00000000\n";
  EXPECT_EQ(lost("0000:00:03.0"), "eth0");
  EXPECT_EQ(lost("net_af_packet0,iface=tun0"), "tun0");
  EXPECT_EQ(lost("0000:00:04.0"), std::nullopt);
}

TEST_F(NicGuardTest, GuardsAllDefaultRoutesOfTheLowestMetric) {
  const std::string any = "00000000000000000000000000000000 00 ";
  const auto line = [&any](const std::string& metric, const std::string& interface) {
    return any + any + "fe800000000000000000000000000001 " + metric +
           " 00000001 00000000 00000003 " + interface + "\n";
  };
  const auto write = [&](const std::string& of_eth1, const std::string& of_eth2) {
    std::ofstream(root_ / "proc/net/ipv6_route") << line(of_eth1, "eth1") << line(of_eth2, "eth2");
  };
  write("00000400", "00000400");
  EXPECT_EQ(lost("0000:00:04.0"), "eth1");
  EXPECT_EQ(lost("0000:00:05.0"), "eth2");
  write("00000400", "000003ff");
  EXPECT_EQ(lost("0000:00:04.0"), std::nullopt);
  EXPECT_EQ(lost("0000:00:05.0"), "eth2");
  EXPECT_EQ(lost("0000:00:03.0"), "eth0") << "that of IPv4 is of another family";
}

TEST_F(NicGuardTest, LetsOthersGo) {
  EXPECT_EQ(lost("0000:00:04.0"), std::nullopt);
  EXPECT_EQ(lost("0000:00:10.0"), std::nullopt);
  EXPECT_EQ(lost("net_af_packet0,iface=eth1"), std::nullopt);
  EXPECT_EQ(lost("net_memif0,role=server,socket=/tmp/eth0"), std::nullopt);
}

TEST_F(NicGuardTest, KnowsTheInterfaceOfAnSshSession) {
  // 11.0.0.9 is logged in at port 22 of eth1, which has no default route.
  std::ofstream(root_ / "proc/net/tcp")
      << "  sl  local_address rem_address   st tx_queue rx_queue\n"
         "   0: 0100000B:0016 0900000B:9C40 01 00000000:00000000 00:00000000 00000000 0 0 1\n";
  const NicGuard guard({root_ / "proc", root_ / "sys"});
  const auto loss = guard.loss_with("0000:00:04.0");
  ASSERT_TRUE(loss.has_value());
  EXPECT_EQ(loss->interface, "eth1");
  EXPECT_EQ(loss->carries, "an SSH session");
  EXPECT_EQ(guard.loss_with("0000:00:03.0")->carries, "this machine's default route");
}

TEST_F(NicGuardTest, KnowsASessionAtAnotherPortByTheVariable) {
  // The same by an IPv6 socket at port 2222 (0x8ae), which shows IPv4 peers as mapped addresses.
  std::ofstream(root_ / "proc/net/tcp6")
      << "  sl  local_address rem_address st\n"
         "   0: 0000000000000000FFFF00000100000B:08AE 0000000000000000FFFF00000900000B:9C40 01 0\n";
  EXPECT_EQ(lost("0000:00:04.0"), std::nullopt);
  const NicGuard guard({root_ / "proc", root_ / "sys"}, "11.0.0.9 40000 11.0.0.1 2222");
  EXPECT_TRUE(guard.loss_with("0000:00:04.0").has_value());
}

/// Processes that listen.
class NicGuardOfServers : public NicGuardTest {
 protected:
  void add_process(const std::string& pid, const std::string& name, uint32_t uid, int inode) {
    const std::string id = "\t" + std::to_string(uid);
    const fs::path process = root_ / "proc" / pid;
    fs::create_directories(process / "fd");
    std::ofstream(process / "comm") << name << "\n";
    std::ofstream(process / "status")
        << "Name:\t" << name << "\nUid:" << id << id << id << id << "\n";
    fs::create_symlink("socket:[" + std::to_string(inode) + "]", process / "fd/3");
  }
};

// Another one's login, and the caller came over the console: no variable tells the port.
TEST_F(NicGuardOfServers, KnowsASessionAtThePortWhereAnSshServerListens) {
  // Port 2222 (0x8ae) has a listener, and 11.0.0.9 is logged in at it.
  std::ofstream(root_ / "proc/net/tcp")
      << "  sl  local_address rem_address   st tx_queue rx_queue\n"
         "   0: 00000000:08AE 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711\n"
         "   1: 0100000B:08AE 0900000B:9C40 01 00000000:00000000 00:00000000 00000000 0 0 4712\n"
         "   2: 00000000:0000 00000000:0000 07\n";
  add_process("311", "nginx", 0, 4711);
  add_process("312", "sshd", 0, 4713);
  EXPECT_EQ(lost("0000:00:04.0"), std::nullopt) << "that of another program";
  add_process("314", "sshd", 1000, 4711);
  EXPECT_EQ(lost("0000:00:04.0"), std::nullopt) << "a user's";
  add_process("313", "sshd", 0, 4711);
  EXPECT_EQ(lost("0000:00:04.0"), "eth1");
}

// As `ssh -R` and X11 forwarding make them, of both families.
TEST_F(NicGuardOfServers, TakesNoPortThatIsForwardedForTheServers) {
  const std::string rest = " 00:00000000 00000000 0 0 4711\n";
  const std::string logins =
      "   1: 0100000B:177A 0900000B:9C40 01 00000000:00000000 00:00000000 00000000 0 0 4712\n";
  add_process("313", "sshd", 0, 4711);
  const auto listen_at = [&](const std::string& file, const std::string& address) {
    std::ofstream(root_ / "proc/net/tcp") << logins;
    std::ofstream(root_ / "proc/net" / file, std::ios::app)
        << "   0: " << address << ":177A 00000000:0000 0A 00000000:00000000" << rest;
  };
  listen_at("tcp", "0100007F");
  EXPECT_EQ(lost("0000:00:04.0"), std::nullopt);
  listen_at("tcp6", "00000000000000000000000001000000");
  EXPECT_EQ(lost("0000:00:04.0"), std::nullopt);
  listen_at("tcp6", "0000000000000000FFFF00000100007F");
  EXPECT_EQ(lost("0000:00:04.0"), std::nullopt);
  listen_at("tcp6", "00000000000000000000000000000000");
  EXPECT_EQ(lost("0000:00:04.0"), "eth1");
}

// Each NIC had all sockets and processes read again.
TEST_F(NicGuardTest, ReadsTheMachineOnce) {
  const NicGuard guard({root_ / "proc", root_ / "sys"});
  EXPECT_TRUE(guard.loss_with("0000:00:03.0").has_value());
  fs::remove_all(root_ / "proc");
  EXPECT_TRUE(guard.loss_with("0000:00:03.0").has_value());
}

// Two interfaces in one network: the kernel answers over the first one.
TEST_F(NicGuardTest, KnowsTheInterfaceThatHasTheAddressOfAnSshSession) {
  std::ofstream(root_ / "proc/net/tcp") << "  sl  local_address rem_address   st\n"
                                           "   0: 0200000B:0016 0900000B:9C40 01\n";
  const OwnAddress own{mapped(0x0200000b), "eth2"};
  fs::remove(root_ / "proc/net/ipv6_route");
  EXPECT_EQ(lost("0000:00:05.0"), std::nullopt);
  const NicGuard guard({root_ / "proc", root_ / "sys"}, "", {own});
  const auto loss = guard.loss_with("0000:00:05.0");
  ASSERT_TRUE(loss.has_value());
  EXPECT_EQ(loss->carries, "an SSH session");
  EXPECT_TRUE(guard.loss_with("0000:00:04.0").has_value()) << "packets leave over it";
}

/// A default route of IPv4 over `interface`.
Route default_over(const std::string& interface, uint32_t table = kMainTable) {
  return {.network = mapped(0), .bits = kMappedBits, .interface = interface, .table = table};
}
RouteRule rule_of_v4(uint32_t table, const Address& source = mapped(0),
                     uint32_t source_bits = kMappedBits) {
  return {.table = table, .source = source, .source_bits = source_bits};
}

// Only the first one was seen, and the other could be taken.
TEST_F(NicGuardTest, GuardsEachNextHopOfADefaultRoute) {
  const NicGuard guard({root_ / "proc", root_ / "sys"}, "", {},
                       Routing{{default_over("br0"), default_over("eth1")}, usual_rules()});
  EXPECT_TRUE(guard.loss_with("0000:00:03.0").has_value());
  EXPECT_TRUE(guard.loss_with("0000:00:04.0").has_value());
  EXPECT_FALSE(guard.loss_with("0000:00:05.0").has_value());
}

// As for a VRF.
TEST_F(NicGuardTest, GuardsDefaultRoutesOfTablesThatRulesName) {
  constexpr uint32_t kTable = 77;
  const auto is_guarded = [this](std::vector<RouteRule> rules) {
    const Routing all{{default_over("br0"), default_over("eth1", kTable)}, std::move(rules)};
    const NicGuard guard({root_ / "proc", root_ / "sys"}, "", {}, all);
    EXPECT_TRUE(guard.loss_with("0000:00:03.0").has_value());
    return guard.loss_with("0000:00:04.0").has_value();
  };
  EXPECT_FALSE(is_guarded({rule_of_v4(kMainTable)}));
  EXPECT_TRUE(is_guarded({rule_of_v4(kMainTable), rule_of_v4(kTable)}));
  EXPECT_FALSE(is_guarded({rule_of_v4(kMainTable), {.is_v4 = false, .table = kTable}}));
}

// The empty name was that of each NIC whose device string names no interface.
TEST_F(NicGuardTest, AnInterfaceWithoutANameIsNoNics) {
  const NicGuard guard({root_ / "proc", root_ / "sys"}, "", {},
                       Routing{{default_over(""), default_over("br0")}, usual_rules()});
  EXPECT_TRUE(guard.loss_with("0000:00:03.0").has_value());
  EXPECT_FALSE(guard.loss_with("0000:00:05.0").has_value());
}

// Its metric took the default route of all other packets away.
TEST_F(NicGuardTest, ADefaultRouteForSomeSourcesHidesNoOther) {
  const Route of_some{.interface = "eth1", .metric = 10, .source = {0xfd}, .source_bits = 48};
  const Route of_all{.interface = "eth2", .metric = 1024};
  const NicGuard guard({root_ / "proc", root_ / "sys"}, "", {},
                       Routing{{of_some, of_all}, usual_rules()});
  EXPECT_TRUE(guard.loss_with("0000:00:04.0").has_value());
  EXPECT_TRUE(guard.loss_with("0000:00:05.0").has_value());
}

// The file has the routes of all tables, and that of a further NIC hid the machine's default route.
TEST_F(NicGuardTest, ADefaultRouteOfAFileHidesNoOther) {
  const Route of_main{.interface = "eth0", .metric = 1024};
  const Route of_file{.interface = "eth1", .metric = 512, .is_of_file = true};
  const NicGuard guard({root_ / "proc", root_ / "sys"}, "", {},
                       Routing{{of_main, of_file}, usual_rules()});
  EXPECT_TRUE(guard.loss_with("0000:00:03.0").has_value());
  EXPECT_TRUE(guard.loss_with("0000:00:04.0").has_value());
}

// It hid the one in use, and comes back with its link.
TEST_F(NicGuardTest, ADeadDefaultRouteHidesNoOther) {
  const Route dead{.interface = "eth0", .metric = 100, .is_dead = true};
  const Route live{.interface = "eth1", .metric = 200};
  const Route spare{.interface = "eth2", .metric = 300};
  const NicGuard guard({root_ / "proc", root_ / "sys"}, "", {},
                       Routing{{dead, live, spare}, usual_rules()});
  EXPECT_TRUE(guard.loss_with("0000:00:03.0").has_value());
  EXPECT_TRUE(guard.loss_with("0000:00:04.0").has_value());
  EXPECT_FALSE(guard.loss_with("0000:00:05.0").has_value());
}

// As clouds configure a second NIC, which is Lyre's: it must not be refused.
TEST_F(NicGuardTest, LetsATableForAnInterfacesOwnAddressesGo) {
  constexpr uint32_t kTable = 10001;
  const Address second = mapped(0x0500000b);
  const RouteRule to_second{.table = kTable, .destination = second, .destination_bits = 128};
  const auto is_guarded = [&](const std::string& interface_with_it) {
    const Routing all{{default_over("br0"), default_over("eth1", kTable)},
                      {rule_of_v4(kMainTable), rule_of_v4(kTable, second, 128), to_second}};
    const NicGuard guard({root_ / "proc", root_ / "sys"}, "", {{second, interface_with_it}}, all);
    return guard.loss_with("0000:00:04.0").has_value();
  };
  EXPECT_FALSE(is_guarded("eth1"));
  EXPECT_TRUE(is_guarded("eth0")) << "another interface's packets leave over it";
}

// 11.0.0.9 is logged in at 11.0.0.1, whose packets have a table of their own, with two next hops.
TEST_F(NicGuardTest, KnowsTheWaysOfAnSshSessionInItsTable) {
  constexpr uint32_t kTable = 10001;
  const Address own = mapped(0x0100000b);
  std::ofstream(root_ / "proc/net/tcp") << "  sl  local_address rem_address   st\n"
                                           "   0: 0100000B:0016 0900000B:9C40 01\n";
  const auto carries_login = [&](const Address& source) {
    const Routing all{
        {default_over("br0"), default_over("eth1", kTable), default_over("eth2", kTable)},
        {rule_of_v4(kMainTable), rule_of_v4(kTable, source, 128)}};
    const NicGuard guard({root_ / "proc", root_ / "sys"}, "", {}, all);
    return std::pair(guard.loss_with("0000:00:04.0").has_value(),
                     guard.loss_with("0000:00:05.0").has_value());
  };
  EXPECT_EQ(carries_login(own), std::pair(true, true));
  EXPECT_EQ(carries_login(mapped(0x0200000b)), std::pair(false, false));
}

/// 11.0.0.9 is logged in at 11.0.0.1, an address of br0.
class NicGuardOfALogin : public NicGuardTest {
 protected:
  static constexpr const char* kEth1 = "0000:00:04.0";
  static constexpr const char* kEth2 = "0000:00:05.0";

  NicGuardOfALogin() {
    std::ofstream(root_ / "proc/net/tcp") << "  sl  local_address rem_address   st\n"
                                             "   0: 0100000B:0016 0900000B:9C40 01\n";
  }
  NicGuard guard_with(Routing all) const {
    return NicGuard({root_ / "proc", root_ / "sys"}, "", {{mapped(0x0100000b), "br0"}},
                    std::move(all));
  }
  /// To 11.0.0.0/24, without a router.
  static Route on_link(const std::string& interface, uint32_t number) {
    return {.network = mapped(0x0000000b),
            .bits = kMappedBits + 24,
            .interface = interface,
            .number = number};
  }
};

// Two NICs in one network: both were refused, and the kernel uses the first route.
TEST_F(NicGuardOfALogin, LeavesOverTheFirstOfSeveralRoutesToANetwork) {
  const auto in_order = guard_with({{on_link("br0", 3), on_link("eth1", 4)}, usual_rules()});
  EXPECT_TRUE(in_order.loss_with("0000:00:03.0").has_value());
  EXPECT_FALSE(in_order.loss_with(kEth1).has_value());
  const auto of_one = guard_with({{on_link("eth2", 4), on_link("eth1", 4)}, usual_rules()});
  EXPECT_TRUE(of_one.loss_with(kEth1).has_value()) << "a next hop";
  EXPECT_TRUE(of_one.loss_with(kEth2).has_value()) << "the other next hop";
}

// It was taken for the way, and the NIC in use could be taken.
TEST_F(NicGuardOfALogin, LeavesOverNoDeadRoute) {
  Route dead = on_link("eth1", 3);
  dead.is_dead = true;
  const auto guard = guard_with({{dead, on_link("eth2", 4)}, usual_rules()});
  EXPECT_FALSE(guard.loss_with(kEth1).has_value());
  EXPECT_TRUE(guard.loss_with(kEth2).has_value());
}

TEST_F(NicGuardOfALogin, ARouteOfAFileHidesNoOther) {
  Route of_file = on_link("eth1", 3);
  of_file.is_of_file = true;
  const auto guard = guard_with({{of_file, on_link("eth2", 4)}, usual_rules()});
  EXPECT_TRUE(guard.loss_with(kEth1).has_value());
  EXPECT_TRUE(guard.loss_with(kEth2).has_value());
}

TEST_F(NicGuardOfALogin, KnowsATableForItsPeerOnly) {
  constexpr uint32_t kTable = 10001;
  const auto carries_login = [&](const Address& destination) {
    const RouteRule rule{.table = kTable, .destination = destination, .destination_bits = 128};
    const auto guard = guard_with(
        {{default_over("br0"), default_over("eth1", kTable)}, {rule_of_v4(kMainTable), rule}});
    return guard.loss_with(kEth1).has_value();
  };
  EXPECT_TRUE(carries_login(mapped(0x0900000b)));
  EXPECT_FALSE(carries_login(mapped(0x0800000b)));
}

/// fe80::9 is logged in at fe80::1.
class NicGuardOfALinkLocalLogin : public NicGuardTest {
 protected:
  static Address link_local(uint8_t last) {
    return {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
  }
  static Route link_local_over(const std::string& interface) {
    return {.network = link_local(0), .bits = 64, .interface = interface};
  }
  NicGuardOfALinkLocalLogin() {
    std::ofstream(root_ / "proc/net/tcp6") << "  sl  local_address rem_address st\n"
                                              "   0: 000080FE000000000000000001000000:0016 "
                                              "000080FE000000000000000009000000:9C40 01 0\n";
  }
};

// Each interface has that network.
TEST_F(NicGuardOfALinkLocalLogin, IsThatOfItsOwnAddress) {
  const auto guarded_with = [this](const std::vector<OwnAddress>& own) {
    const NicGuard guard(
        {root_ / "proc", root_ / "sys"}, "", own,
        Routing{{link_local_over("eth1"), link_local_over("eth2")}, usual_rules()});
    return std::pair(guard.loss_with("0000:00:04.0").has_value(),
                     guard.loss_with("0000:00:05.0").has_value());
  };
  EXPECT_EQ(guarded_with({{link_local(1), "eth1"}, {link_local(2), "eth2"}}),
            std::pair(true, false));
  EXPECT_EQ(guarded_with({}), std::pair(true, true)) << "the addresses are not known";
}

// It is for another source.
TEST_F(NicGuardOfALinkLocalLogin, LeavesOverNoRouteForAnotherSource) {
  const auto carries_login = [this](const Address& source) {
    Route of_some = link_local_over("eth1");
    of_some.source = source;
    of_some.source_bits = 128;
    of_some.metric = 512;
    const NicGuard guard({root_ / "proc", root_ / "sys"}, "", {},
                         Routing{{of_some, link_local_over("eth2")}, usual_rules()});
    return std::pair(guard.loss_with("0000:00:04.0").has_value(),
                     guard.loss_with("0000:00:05.0").has_value());
  };
  EXPECT_EQ(carries_login(link_local(1)), std::pair(true, false)) << "before one for all";
  EXPECT_EQ(carries_login(link_local(7)), std::pair(false, true));
}

TEST(OwnAddresses, HaveTheLoopback) {
  const std::vector<OwnAddress> all = own_addresses();
  if (all.empty()) GTEST_SKIP() << "the kernel may not be asked here";
  bool is_there = false;
  for (const OwnAddress& own : all) {
    is_there = is_there || (own.address == mapped(::htonl(0x7f000001)) && own.interface == "lo");
  }
  EXPECT_TRUE(is_there);
}

TEST(PciAddress, HasOneForm) {
  EXPECT_EQ(pci_address_of("0000:00:1F.0"), "0000:00:1f.0");
  EXPECT_EQ(pci_address_of("00:10.0"), "0000:00:10.0");
  EXPECT_EQ(pci_address_of("net_memif0"), "");
  EXPECT_EQ(pci_address_of("0000:00:10"), "");
}

}  // namespace
}  // namespace lyre::machine
