#include "tools/lyre/nic/port_section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "machine/own_addresses.h"
#include "machine/routes.h"
#include "tests/unit/tools/nic_machine.h"

namespace lyre::tools {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// How the kernel uses an interface that has these addresses, by the recorded routes.
InterfaceUse use_with(const std::string& interface, std::vector<std::string> addresses,
                      const machine::Roots& roots) {
  InterfaceUse use{.addresses = std::move(addresses)};
  take_routers({interface}, machine::read_routing(roots).routes, use);
  return use;
}

// As a guest of Google Cloud has it: a lone address, whose subnet is behind the router.
TEST_F(NicTest, ThePortSectionHasTheRouterOfTheKernel) {
  tree_.write("proc/net/route",
              "Iface Destination Gateway Flags RefCnt Use Metric Mask\n"
              "eth0 00000000 0100000A 0003 0 0 0 00000000\n"
              "eth1 0102000A 00000000 0005 0 0 0 FFFFFFFF\n"
              "eth1 0002000A 0102000A 0003 0 0 0 00FFFFFF\n");
  tree_.write("proc/net/ipv6_route",
              "fd000000000000000000000000000000 40 00000000000000000000000000000000 00 "
              "00000000000000000000000000000000 00000100 00000001 00000000 00000001 eth1\n"
              "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
              "fe800000000000000000000000000001 00000400 00000001 00000000 00000003 eth1\n");
  const auto routers = [&](std::vector<std::string> addresses) {
    return use_with("eth1", std::move(addresses), tree_.roots()).gateways;
  };
  EXPECT_THAT(routers({"10.0.2.5/32", "fd00::5/64"}), ElementsAre("10.0.2.1", "fe80::1"));
  EXPECT_THAT(routers({"10.0.2.5/32"}), ElementsAre("10.0.2.1"));
  EXPECT_THAT(routers({"10.0.2.5/24"}), IsEmpty()) << "no default route goes over it";
  EXPECT_THAT(use_with("eth2", {"10.0.2.5/32"}, tree_.roots()).gateways, IsEmpty());
  const InterfaceUse use{.addresses = {"10.0.2.5/32"}, .gateways = {"10.0.2.1"}};
  EXPECT_THAT(port_section(nic_named(states_, "eth1"), use),
              HasSubstr("address = \"10.0.2.5/32\"\ngateway = \"10.0.2.1\"\n"));
}

// It became a gateway, which has no lifetime and gives way to no other router.
TEST_F(NicTest, ARouterOfAdvertisementsStaysOne) {
  tree_.write("proc/net/ipv6_route",
              "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
              "fe800000000000000000000000000001 00000400 00000001 00000000 00450003 eth1\n");
  const InterfaceUse use = use_with("eth1", {"10.0.2.5/24", "fd00::5/128"}, tree_.roots());
  EXPECT_THAT(use.gateways, IsEmpty());
  EXPECT_EQ(use.advertised_router, "fe80::1");
  const std::string section = port_section(nic_named(states_, "eth1"), use);
  EXPECT_THAT(section, HasSubstr("the IPv6 router fe80::1 from router advertisements"));
  EXPECT_THAT(section, HasSubstr("\naccept_ra = true\n"));
  EXPECT_THAT(section, Not(HasSubstr("gateway =")));
  EXPECT_EQ(use_with("eth1", {"10.0.2.5/24"}, tree_.roots()).advertised_router, "")
      << "it is of no use without an address of IPv6";
}

constexpr machine::Address kIpv6Router{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
constexpr uint32_t kFurtherTable = 10001;

/// A default route of IPv4. Without a gateway that is mapped(0).
machine::Route route_over_eth1(const machine::Address& gateway,
                               uint32_t table = machine::kMainTable) {
  return {.network = machine::mapped(0),
          .bits = machine::kMappedBits,
          .interface = "eth1",
          .gateway = gateway,
          .table = table};
}

// Nothing was printed.
TEST_F(NicTest, ARouterThatAPortCannotHaveIsNamed) {
  const auto section_with = [&](const std::vector<machine::Route>& routes) {
    InterfaceUse use{.addresses = {"10.0.2.5/24"}};
    take_routers({"eth1"}, routes, use);
    return port_section(nic_named(states_, "eth1"), use);
  };
  const std::string begin = "\n# The kernel's default route of IPv4 over eth1 ";
  EXPECT_THAT(section_with({route_over_eth1(kIpv6Router)}),
              HasSubstr(begin + "has a router of the other family, fe80::1: "));
  EXPECT_THAT(section_with({route_over_eth1(machine::mapped(0))}),
              HasSubstr(begin + "names no router: "));
  EXPECT_THAT(section_with({}), Not(HasSubstr("default route")));
}

// As clouds configure a second NIC.
TEST_F(NicTest, ThePortSectionHasTheRouterOfAFurtherTable) {
  const auto gateways_with = [](const std::vector<machine::Route>& routes) {
    InterfaceUse use{.addresses = {"10.0.2.5/24"}};
    take_routers({"eth1"}, routes, use);
    return use.gateways;
  };
  const machine::Route further = route_over_eth1(machine::mapped(0x0902000a), kFurtherTable);
  machine::Route main = route_over_eth1(machine::mapped(0x0102000a));
  main.metric = 1024;
  EXPECT_THAT(gateways_with({further}), ElementsAre("10.0.2.9"));
  EXPECT_THAT(gateways_with({further, main}), ElementsAre("10.0.2.1"));
  EXPECT_THAT(gateways_with({route_over_eth1(kIpv6Router), further}), ElementsAre("10.0.2.9"));
}

/// "10.0.1.1/24" and so on, as of an ENI with secondary addresses, and of IPv6 fd00::1/64 and so
/// on.
std::vector<machine::OwnAddress> addresses_of_eth1(uint8_t of_v4, uint8_t of_v6) {
  std::vector<machine::OwnAddress> out;
  for (uint8_t i = 1; i <= of_v4; ++i) {
    machine::Address address = machine::mapped(0x0001000a);
    address.back() = i;
    out.push_back({address, "eth1", machine::kMappedBits + 24});
  }
  for (uint8_t i = 1; i <= of_v6; ++i) {
    machine::Address address{0xfd};
    address.back() = i;
    out.push_back({address, "eth1", 64});
  }
  return out;
}

// Those after the seventh vanished, and with them IPv6 and its router.
TEST_F(NicTest, APortHasBothFamiliesAndTheAddressesLeftOutAreNamed) {
  InterfaceUse use;
  take_addresses({"eth1"}, addresses_of_eth1(9, 2), use);
  EXPECT_THAT(use.addresses, ElementsAre("10.0.1.1/24", "10.0.1.2/24", "10.0.1.3/24", "10.0.1.4/24",
                                         "10.0.1.5/24", "10.0.1.6/24", "fd00::1/64"));
  EXPECT_THAT(use.left_out, ElementsAre("10.0.1.7/24", "10.0.1.8/24", "10.0.1.9/24", "fd00::2/64"));
  machine::Route router{.interface = "eth1", .is_learned = true};
  router.gateway = {0xfe, 0x80, 1};
  take_routers({"eth1"}, {router}, use);
  EXPECT_EQ(use.advertised_router, "fe80:100::");
  const std::string section = port_section(nic_named(states_, "eth1"), use);
  EXPECT_THAT(section, HasSubstr("\n# A port has 7 addresses at most. Left out:\n"
                                 "#   10.0.1.7/24\n"));
  EXPECT_THAT(section, HasSubstr("#   fd00::2/64\n"));
  EXPECT_THAT(port_section(nic_named(states_, "eth2"), use),
              HasSubstr("#   ip address del 10.0.1.9/24 dev eth2\n"))
      << "the kernel's list is whole";
}

TEST_F(NicTest, AsManyAddressesAsAPortHasAreTakenInTheirOrder) {
  InterfaceUse use;
  take_addresses({"eth1"}, addresses_of_eth1(5, 2), use);
  EXPECT_EQ(use.addresses.size(), 7u);
  EXPECT_EQ(use.addresses.back(), "fd00::2/64");
  EXPECT_THAT(use.left_out, IsEmpty());
  InterfaceUse of_one_family;
  take_addresses({"eth1"}, addresses_of_eth1(8, 0), of_one_family);
  EXPECT_EQ(of_one_family.addresses.size(), 7u);
  EXPECT_THAT(of_one_family.left_out, ElementsAre("10.0.1.8/24"));
}

// The kernel would have replaced it within a day.
TEST_F(NicTest, AnAddressThatPassesIsNotTaken) {
  auto all = addresses_of_eth1(1, 2);
  all[1].passing = "temporary";
  all.push_back({{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5}, "eth1", 64});
  all.push_back({machine::mapped(0x0503000a), "eth0", machine::kMappedBits + 24});
  InterfaceUse use;
  take_addresses({"eth1"}, all, use);
  EXPECT_THAT(use.addresses, ElementsAre("10.0.1.1/24", "fd00::2/64"));
  EXPECT_THAT(port_section(nic_named(states_, "eth1"), use),
              HasSubstr("\n# Left out: fd00::1/64, which is temporary.\n"));
}

// Its default route is not the one that the kernel uses.
TEST_F(NicTest, ASecondDefaultRouteIsNoObstacleAndGivesTheRouter) {
  tree_.write("proc/net/route",
              "Iface Destination Gateway Flags RefCnt Use Metric Mask\n"
              "eth0 00000000 0100000A 0003 0 0 512 00000000\n"
              "eth1 00000000 0102000A 0003 0 0 1024 00000000\n");
  states_ = nic_states(tree_.roots(), machine::NicGuard(tree_.roots()));
  EXPECT_EQ(nic_named(states_, "eth0").needed_for, "this machine's default route");
  EXPECT_EQ(nic_named(states_, "eth1").needed_for, "");
  EXPECT_THAT(bind_command(states_, {.name = "eth1", .driver = ""}), Contains("0000:00:05.0"));
  EXPECT_THAT(use_with("eth1", {"10.0.2.5/24"}, tree_.roots()).gateways, ElementsAre("10.0.2.1"));
}

}  // namespace
}  // namespace lyre::tools
