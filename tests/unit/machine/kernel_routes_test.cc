#include "machine/kernel_routes.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/fib_rules.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include <string>
#include <vector>

#include "tests/unit/machine/netlink_messages.h"
#include "tests/unit/machine/tree.h"

namespace lyre::machine {
namespace {

std::string wire_address(const std::string& text) {
  char bytes[16] = {};
  const bool is_of_v4 = text.find(':') == std::string::npos;
  EXPECT_EQ(::inet_pton(is_of_v4 ? AF_INET : AF_INET6, text.c_str(), bytes), 1) << text;
  return {bytes, is_of_v4 ? 4u : 16u};
}
std::string to_interface(uint32_t index) { return with_type(RTA_OIF, raw(index)); }
std::string via_router(const std::string& text) {
  return with_type(RTA_GATEWAY, wire_address(text));
}

rtmsg route_header(uint8_t family) {
  return {.rtm_family = family,
          .rtm_table = RT_TABLE_MAIN,
          .rtm_protocol = RTPROT_STATIC,
          .rtm_type = RTN_UNICAST};
}
std::string route_message(const rtmsg& header, const std::string& attributes) {
  return netlink_message(RTM_NEWROUTE, header, attributes);
}
KernelRouting routes_from(const std::string& dump, uint8_t family) {
  InterfaceNames names({{2, "eth0"}, {3, "eth1"}});
  KernelRouting out;
  add_routes(dump, family, names, out);
  return out;
}

// /proc/net/route has the first next hop only.
TEST(KernelRoutes, ARouteOverSeveralNextHopsIsOneForEach) {
  const std::string hops =
      next_hop(2, via_router("10.0.1.1")) + next_hop(3, via_router("10.0.2.1"));
  const auto found =
      routes_from(route_message(route_header(AF_INET), with_type(RTA_PRIORITY, raw(uint32_t{100})) +
                                                           with_type(RTA_MULTIPATH, hops)),
                  AF_INET);
  ASSERT_EQ(found.routing.routes.size(), 2u);
  EXPECT_TRUE(found.is_whole_v4);
  for (const Route& route : found.routing.routes) {
    EXPECT_TRUE(is_default(route) && is_v4(route) && has_gateway(route));
    EXPECT_EQ(route.metric, 100u);
    EXPECT_EQ(route.table, kMainTable);
  }
  EXPECT_EQ(found.routing.routes[0].interface, "eth0");
  EXPECT_EQ(text_of(found.routing.routes[1].gateway), "10.0.2.1");
  EXPECT_EQ(found.routing.routes[1].interface, "eth1");
}

TEST(KernelRoutes, ARouterOfTheOtherFamilyIsTold) {
  const std::string via = raw(uint16_t{AF_INET6}) + wire_address("fe80::1");
  for (const std::string& hop : {to_interface(3) + with_type(RTA_VIA, via),
                                 with_type(RTA_MULTIPATH, next_hop(3, with_type(RTA_VIA, via)))}) {
    const auto found = routes_from(route_message(route_header(AF_INET), hop), AF_INET);
    ASSERT_EQ(found.routing.routes.size(), 1u);
    EXPECT_TRUE(is_v4(found.routing.routes[0]));
    EXPECT_EQ(text_of(found.routing.routes[0].gateway), "fe80::1");
    EXPECT_FALSE(has_gateway(found.routing.routes[0]));
  }
}

TEST(KernelRoutes, RoutesHaveTheirNetworkAndTable) {
  rtmsg header = route_header(AF_INET);
  header.rtm_dst_len = 16;
  header.rtm_table = RT_TABLE_COMPAT;
  const auto found = routes_from(
      route_message(header, with_type(RTA_DST, wire_address("10.9.0.0")) +
                                with_type(RTA_TABLE, raw(uint32_t{10001})) + to_interface(2)),
      AF_INET);
  ASSERT_EQ(found.routing.routes.size(), 1u);
  const Route& route = found.routing.routes[0];
  EXPECT_EQ(route.bits, 112u);
  EXPECT_EQ(text_of(route.network), "10.9.0.0");
  EXPECT_EQ(route.table, 10001u);
  EXPECT_FALSE(has_gateway(route) || is_default(route));
}

TEST(KernelRoutes, OnlyUnicastRoutesOfTheFamilyCount) {
  const auto refused = [](void (*change)(rtmsg&)) {
    rtmsg header = route_header(AF_INET);
    change(header);
    return routes_from(route_message(header, to_interface(2)), AF_INET).routing.routes.empty();
  };
  EXPECT_FALSE(refused([](rtmsg&) {}));
  EXPECT_TRUE(refused([](rtmsg& header) { header.rtm_type = RTN_UNREACHABLE; }));
  EXPECT_TRUE(refused([](rtmsg& header) { header.rtm_table = RT_TABLE_LOCAL; }));
  EXPECT_TRUE(refused([](rtmsg& header) { header.rtm_family = AF_INET6; }));
  EXPECT_TRUE(refused([](rtmsg& header) { header.rtm_flags = RTM_F_CLONED; }));
}

TEST(KernelRoutes, OneOfIpv6MayBeLearned) {
  rtmsg header = route_header(AF_INET6);
  const std::string hop = to_interface(2) + via_router("fe80::1");
  EXPECT_FALSE(routes_from(route_message(header, hop), AF_INET6).routing.routes.at(0).is_learned);
  header.rtm_protocol = RTPROT_RA;
  const auto found = routes_from(route_message(header, hop), AF_INET6);
  EXPECT_TRUE(found.routing.routes.at(0).is_learned);
  EXPECT_TRUE(is_default(found.routing.routes.at(0)) && has_gateway(found.routing.routes.at(0)));
}

// Such a one counted as the way of all packets.
TEST(KernelRoutes, OneOfIpv6MayBeForSomeSources) {
  rtmsg header = route_header(AF_INET6);
  header.rtm_src_len = 48;
  const std::string source = with_type(RTA_SRC, wire_address("fd00:1::"));
  const auto found = routes_from(route_message(header, source + to_interface(2)), AF_INET6);
  ASSERT_EQ(found.routing.routes.size(), 1u);
  EXPECT_EQ(text_of(found.routing.routes[0].source), "fd00:1::");
  EXPECT_EQ(found.routing.routes[0].source_bits, 48u);
}

TEST(KernelRoutes, EachHasItsNumberAndNextHopsHaveOne) {
  const rtmsg header = route_header(AF_INET);
  const std::string hops = with_type(RTA_MULTIPATH, next_hop(2, "") + next_hop(3, ""));
  const auto found =
      routes_from(route_message(header, to_interface(3)) + route_message(header, hops), AF_INET);
  ASSERT_EQ(found.routing.routes.size(), 3u);
  EXPECT_LT(found.routing.routes[0].number, found.routing.routes[1].number);
  EXPECT_EQ(found.routing.routes[1].number, found.routing.routes[2].number);
  EXPECT_EQ(number_after(found.routing.routes), found.routing.routes[2].number + 1);
}

// Its name is empty, and that was the interface of each NIC without one.
TEST(KernelRoutes, AnInterfaceThatWentHasNone) {
  constexpr uint32_t kGone = 0x7fffffff;
  const auto found =
      routes_from(route_message(route_header(AF_INET), to_interface(kGone)), AF_INET);
  EXPECT_TRUE(found.routing.routes.empty());
  EXPECT_TRUE(found.is_whole_v4);
}

// A route whose interface has no link hid the one in use, with ignore_routes_with_linkdown=1.
TEST(KernelRoutes, OneMayBeDead) {
  rtmsg dead = route_header(AF_INET6);
  dead.rtm_flags = RTNH_F_DEAD | RTNH_F_LINKDOWN;
  rtmsg live = dead;
  live.rtm_flags = RTNH_F_LINKDOWN;
  const auto is_dead = [](const rtmsg& header) {
    const auto found = routes_from(route_message(header, to_interface(2)), AF_INET6);
    return found.routing.routes.at(0).is_dead;
  };
  EXPECT_TRUE(is_dead(dead));
  EXPECT_FALSE(is_dead(live));
}

TEST(KernelRoutes, ANextHopMayBeDead) {
  const std::string hops = next_hop(2, "", RTNH_F_DEAD) + next_hop(3, "", RTNH_F_LINKDOWN);
  const auto found =
      routes_from(route_message(route_header(AF_INET), with_type(RTA_MULTIPATH, hops)), AF_INET);
  ASSERT_EQ(found.routing.routes.size(), 2u);
  EXPECT_TRUE(found.routing.routes[0].is_dead);
  EXPECT_FALSE(found.routing.routes[1].is_dead);
}

/// As with net.ipv4.nexthop_compat_mode=0.
std::string hidden_route(uint8_t family) {
  return route_message(route_header(family), with_type(RTA_NH_ID, raw(uint32_t{1})));
}

TEST(KernelRoutes, ANexthopObjectMayHideTheNextHops) {
  const auto of_v4 = routes_from(hidden_route(AF_INET), AF_INET);
  EXPECT_FALSE(of_v4.is_whole_v4);
  EXPECT_TRUE(of_v4.is_whole_v6);
  const auto of_v6 = routes_from(hidden_route(AF_INET6), AF_INET6);
  EXPECT_TRUE(of_v6.is_whole_v4);
  EXPECT_FALSE(of_v6.is_whole_v6);
  const std::string told = with_type(RTA_NH_ID, raw(uint32_t{1})) + to_interface(2);
  EXPECT_TRUE(routes_from(route_message(route_header(AF_INET), told), AF_INET).is_whole_v4);
}

// Both files stood beside all routes of rtnetlink.
TEST(KernelRoutes, TheFileOfAFamilyThatIsNotWholeIsAdded) {
  const std::string any = "00000000000000000000000000000000 00 ";
  Tree tree;
  tree.write("proc/net/route",
             "Iface Destination Gateway Flags RefCnt Use Metric Mask\n"
             "eth0 00000000 0102000A 0003 0 0 512 00000000\n");
  tree.write("proc/net/ipv6_route",
             any + any +
                 "fe800000000000000000000000000001 00000200 00000001 00000000 00000003 "
                 "eth1\n");
  const auto with_files = [&tree](KernelRouting all) {
    add_files(tree.roots(), all);
    return all.routing.routes;
  };
  EXPECT_TRUE(with_files(KernelRouting{}).empty());
  const auto of_v4 = with_files(routes_from(hidden_route(AF_INET), AF_INET));
  ASSERT_EQ(of_v4.size(), 1u);
  EXPECT_TRUE(of_v4[0].interface == "eth0" && of_v4[0].is_of_file);
  const auto of_v6 = with_files(routes_from(hidden_route(AF_INET6), AF_INET6));
  ASSERT_EQ(of_v6.size(), 1u);
  EXPECT_TRUE(of_v6[0].interface == "eth1" && of_v6[0].is_of_file);
}

TEST(KernelRoutes, ShortMessagesHaveNoRoute) {
  const std::string hops = next_hop(2, via_router("10.0.1.1"));
  const std::string whole =
      route_message(route_header(AF_INET), to_interface(3) + with_type(RTA_MULTIPATH, hops));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_TRUE(routes_from(whole.substr(0, size), AF_INET).routing.routes.empty()) << size;
  }
  const std::string torn = with_type(RTA_MULTIPATH, hops.substr(0, hops.size() - 1));
  EXPECT_TRUE(
      routes_from(route_message(route_header(AF_INET), torn), AF_INET).routing.routes.empty());
}

std::string rule_message(const fib_rule_hdr& header, const std::string& attributes) {
  return netlink_message(RTM_NEWRULE, header, attributes);
}

TEST(KernelRoutes, RulesHaveTheirTableAndSource) {
  fib_rule_hdr header{};
  header.family = AF_INET;
  header.action = FR_ACT_TO_TBL;
  header.table = RT_TABLE_MAIN;
  const std::string table = with_type(FRA_TABLE, raw(uint32_t{10001}));
  const std::string source = with_type(FRA_SRC, wire_address("10.0.2.5"));
  fib_rule_hdr of_one = header, inverted = header, blackhole = header, local = header;
  of_one.src_len = inverted.src_len = 32;
  inverted.flags = FIB_RULE_INVERT;
  blackhole.action = FR_ACT_BLACKHOLE;
  local.table = RT_TABLE_LOCAL;
  const auto rules = rules_in(rule_message(header, "") + rule_message(of_one, table + source) +
                                  rule_message(inverted, table + source) +
                                  rule_message(blackhole, "") + rule_message(local, ""),
                              AF_INET);
  ASSERT_EQ(rules.size(), 3u);
  EXPECT_EQ(rules[0].table, kMainTable);
  EXPECT_TRUE(is_from_all(rules[0]) && is_to_all(rules[0]));
  EXPECT_EQ(rules[1].table, 10001u);
  EXPECT_EQ(rules[1].source_bits, 128u);
  EXPECT_EQ(text_of(rules[1].source), "10.0.2.5");
  EXPECT_TRUE(is_to_all(rules[1]));
  EXPECT_TRUE(is_from_all(rules[2])) << "not from: all others";
  EXPECT_TRUE(rules_in(rule_message(header, ""), AF_INET6).empty());
}

// Such a rule was one for all packets.
TEST(KernelRoutes, RulesHaveTheirDestinationAndInterface) {
  fib_rule_hdr header{};
  header.family = AF_INET;
  header.action = FR_ACT_TO_TBL;
  header.table = 100;
  fib_rule_hdr to_one = header, inverted = header;
  to_one.dst_len = inverted.dst_len = 32;
  inverted.flags = FIB_RULE_INVERT;
  const std::string destination = with_type(FRA_DST, wire_address("10.0.2.5"));
  const std::string out = with_type(FRA_OIFNAME, std::string("eth1") + '\0');
  const std::string in = with_type(FRA_IIFNAME, std::string("lo") + '\0');
  const auto rules =
      rules_in(rule_message(to_one, destination + out) + rule_message(inverted, destination + out) +
                   rule_message(header, in),
               AF_INET);
  ASSERT_EQ(rules.size(), 3u);
  EXPECT_TRUE(is_from_all(rules[0]));
  EXPECT_FALSE(is_to_all(rules[0]));
  EXPECT_EQ(rules[0].destination_bits, 128u);
  EXPECT_EQ(text_of(rules[0].destination), "10.0.2.5");
  EXPECT_EQ(rules[0].out_interface, "eth1");
  EXPECT_TRUE(is_to_all(rules[1])) << "not to: all others";
  EXPECT_EQ(rules[1].out_interface, "");
  EXPECT_EQ(rules[2].out_interface, "") << "the machine's own packets";
}

TEST(KernelRoutes, VrfsHaveTables) {
  const auto link = [](const std::string& kind, uint32_t table) {
    const std::string data = with_type(IFLA_INFO_DATA, with_type(IFLA_VRF_TABLE, raw(table)));
    return netlink_message(RTM_NEWLINK, ifinfomsg{},
                           with_type(IFLA_LINKINFO, with_type(IFLA_INFO_KIND, kind + '\0') + data));
  };
  EXPECT_EQ(vrf_tables_in(link("veth", 5) + link("vrf", 77)), std::vector<uint32_t>{77});
}

TEST(KernelRoutes, ThisMachineHasRules) {
  const auto found = kernel_routing();
  if (!found) GTEST_SKIP() << "the kernel may not be asked here";
  bool has_main = false;
  for (const RouteRule& rule : found->routing.rules) has_main |= rule.table == kMainTable;
  EXPECT_TRUE(has_main);
}

}  // namespace
}  // namespace lyre::machine
