#include "machine/routes.h"

#include <gtest/gtest.h>

#include "tests/unit/machine/tree.h"

namespace lyre::machine {
namespace {

TEST(Routes, OfFilesAreOfTheMainTable) {
  Tree tree;
  tree.write("proc/net/route",
             "Iface Destination Gateway Flags RefCnt Use Metric Mask\n"
             "eth1 00000000 0102000A 0003 0 0 512 00000000\n");
  const Routing found = read_routing(tree.roots());
  ASSERT_EQ(found.routes.size(), 1u);
  EXPECT_EQ(found.routes[0].metric, 512u);
  EXPECT_EQ(text_of(found.routes[0].gateway), "10.0.2.1");
  EXPECT_EQ(found.rules.size(), 4u);
  EXPECT_TRUE(leads_to(found.rules.at(0), found.routes[0]));
  for (size_t i = 1; i < found.rules.size(); ++i) {
    EXPECT_FALSE(leads_to(found.rules[i], found.routes[0])) << i;
  }
}

TEST(Routes, OfFilesAreLearnedByTheirFlags) {
  const std::string any = "00000000000000000000000000000000 00 ";
  const auto is_learned_with = [&any](const std::string& flags) {
    Tree tree;
    tree.write("proc/net/ipv6_route",
               any + any + "fe800000000000000000000000000001 00000400 00000001 00000000 " + flags +
                   " eth1\n");
    return read_routing(tree.roots()).routes.at(0).is_learned;
  };
  EXPECT_FALSE(is_learned_with("00000003"));
  EXPECT_TRUE(is_learned_with("00450003")) << "the kernel's";
  EXPECT_TRUE(is_learned_with("00400003")) << "of systemd-networkd";
}

TEST(Routes, OfFilesHaveTheirSourceAndNumber) {
  const std::string any = "00000000000000000000000000000000 00 ";
  const std::string rest = "fe800000000000000000000000000001 00000400 00000001 00000000 00000003";
  Tree tree;
  tree.write("proc/net/route",
             "Iface Destination Gateway Flags RefCnt Use Metric Mask\n"
             "eth0 0002000A 00000000 0001 0 0 0 00FFFFFF\n"
             "eth1 0002000A 00000000 0001 0 0 0 00FFFFFF\n");
  tree.write("proc/net/ipv6_route",
             any + "fd000001000000000000000000000000 30 " + rest + " eth2\n");
  const auto routes = read_routing(tree.roots()).routes;
  ASSERT_EQ(routes.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(routes[i].number, i);
  EXPECT_EQ(routes[0].source_bits, 0u);
  EXPECT_EQ(text_of(routes[2].source), "fd00:1::");
  EXPECT_EQ(routes[2].source_bits, 48u);
}

// A socket that is bound to an interface goes with it.
TEST(Routes, ARuleForAnInterfaceLeadsToOthers) {
  const RouteRule rule{.table = 100, .out_interface = "eth1"};
  Route route{.network = mapped(0), .bits = kMappedBits, .interface = "eth1", .table = 100};
  EXPECT_FALSE(leads_to(rule, route));
  route.interface = "eth2";
  EXPECT_TRUE(leads_to(rule, route));
}

TEST(Routes, UsualRulesAreForAllPackets) {
  for (const RouteRule& rule : usual_rules()) EXPECT_TRUE(is_from_all(rule) && is_to_all(rule));
  EXPECT_TRUE(is_to_all({.is_v4 = true, .destination_bits = 0}));
  EXPECT_FALSE(is_to_all({.is_v4 = false, .destination_bits = kMappedBits}));
}

}  // namespace
}  // namespace lyre::machine
