#include "stack/ip/route_table.h"

#include <gtest/gtest.h>

#include "stack/base/ipv6_address.h"

namespace lyre::ip {
namespace {

IpAddress ip(unsigned a, unsigned b, unsigned c, unsigned d) {
  return IpAddress::v4((a << 24) | (b << 16) | (c << 8) | d);
}
Prefix prefix(const IpAddress& address, uint8_t v4_bits) { return Prefix::v4(address, v4_bits); }

class RouteTableTest : public testing::Test {
 protected:
  RouteTableTest() {
    EXPECT_TRUE(table_.add_address(0, ip(10, 0, 0, 1), 96 + 24));
    EXPECT_TRUE(table_.add_address(1, ip(10, 0, 1, 1), 96 + 24));
    EXPECT_TRUE(table_.add_route(prefix(ip(0, 0, 0, 0), 0), ip(10, 0, 0, 254), 0));
    EXPECT_TRUE(table_.add_route(prefix(ip(172, 16, 0, 0), 12), ip(10, 0, 1, 254), 1));
  }
  RouteTable table_;
};

TEST_F(RouteTableTest, OnLinkIsItsOwnNextHop) {
  const auto route = table_.lookup(ip(10, 0, 1, 7));
  ASSERT_TRUE(route);
  EXPECT_EQ(route->port, 1);
  EXPECT_EQ(route->next_hop, ip(10, 0, 1, 7));
  EXPECT_EQ(route->source, ip(10, 0, 1, 1));
  EXPECT_FALSE(route->is_local);
}

TEST_F(RouteTableTest, TheLongestPrefixWins) {
  EXPECT_EQ(table_.lookup(ip(172, 17, 5, 5))->next_hop, ip(10, 0, 1, 254));
  EXPECT_EQ(table_.lookup(ip(172, 17, 5, 5))->port, 1);
  EXPECT_EQ(table_.lookup(ip(8, 8, 8, 8))->next_hop, ip(10, 0, 0, 254));
  EXPECT_EQ(table_.lookup(ip(172, 32, 0, 1))->port, 0);
  ASSERT_TRUE(table_.add_route(prefix(ip(172, 17, 5, 5), 32), ip(10, 0, 0, 253), 0));
  EXPECT_EQ(table_.lookup(ip(172, 17, 5, 5))->next_hop, ip(10, 0, 0, 253));
}

TEST_F(RouteTableTest, OwnAddressesAreLocal) {
  const auto route = table_.lookup(ip(10, 0, 1, 1));
  ASSERT_TRUE(route);
  EXPECT_TRUE(route->is_local);
  EXPECT_EQ(route->port, 1);
}

TEST_F(RouteTableTest, AConnectionStaysOnThePortOfItsSource) {
  ASSERT_TRUE(table_.add_route(prefix(ip(0, 0, 0, 0), 0), ip(10, 0, 1, 254), 1));
  const auto route = table_.lookup_from(ip(10, 0, 1, 1), ip(8, 8, 8, 8));
  ASSERT_TRUE(route);
  EXPECT_EQ(route->port, 1);
  EXPECT_EQ(route->next_hop, ip(10, 0, 1, 254));
  EXPECT_FALSE(table_.lookup_from(ip(10, 0, 1, 1), ip(10, 0, 1, 255)));
  EXPECT_FALSE(table_.lookup_from(ip(9, 9, 9, 9), ip(8, 8, 8, 8)));
  EXPECT_TRUE(table_.lookup_from(ip(10, 0, 1, 1), ip(10, 0, 0, 1))->is_local);
}

TEST_F(RouteTableTest, NothingIsRoutedToWhatIsNoHost) {
  for (const IpAddress& bad : {ip(255, 255, 255, 255), ip(10, 0, 0, 255), ip(10, 0, 0, 0),
                               ip(224, 0, 0, 1), ip(127, 0, 0, 1), ip(0, 0, 0, 0), IpAddress{}}) {
    EXPECT_FALSE(table_.lookup(bad));
  }
}

TEST_F(RouteTableTest, MartianSources) {
  // RFC 1122 3.2.1.3.
  for (const IpAddress& bad :
       {ip(255, 255, 255, 255), ip(10, 0, 1, 255), ip(10, 0, 0, 0), ip(239, 1, 2, 3),
        ip(127, 0, 0, 1), ip(0, 0, 0, 0), ip(10, 0, 0, 1)}) {
    EXPECT_TRUE(table_.is_martian_source(bad));
  }
  EXPECT_FALSE(table_.is_martian_source(ip(10, 0, 0, 2)));
  EXPECT_FALSE(table_.is_martian_source(ip(192, 168, 1, 255)));
}

TEST_F(RouteTableTest, ClassEIsUnicast) {
  // Google Cloud assigns it to pods and VMs.
  for (const IpAddress& host : {ip(240, 0, 0, 1), ip(250, 0, 0, 1), ip(255, 255, 255, 254)}) {
    EXPECT_FALSE(table_.is_martian_source(host));
    ASSERT_TRUE(table_.lookup(host));
    EXPECT_EQ(table_.lookup(host)->next_hop, ip(10, 0, 0, 254));
  }
}

TEST_F(RouteTableTest, RefusesGatewaysThatCannotBeReached) {
  RouteTable table;
  EXPECT_FALSE(table.add_route(prefix(ip(0, 0, 0, 0), 0), ip(10, 0, 0, 254), 0));
  ASSERT_TRUE(table.add_address(0, ip(10, 0, 0, 1), 96 + 24));
  EXPECT_FALSE(table.add_route(prefix(ip(0, 0, 0, 0), 0), ip(10, 0, 0, 1), 0));
  EXPECT_FALSE(table.add_route(prefix(ip(0, 0, 0, 0), 0), ip(10, 0, 0, 255), 0));
  EXPECT_FALSE(table.add_route(prefix(ip(0, 0, 0, 0), 0), ip(10, 0, 1, 254), 0));
  EXPECT_FALSE(table.add_address(0, ip(10, 0, 0, 1), 96 + 24)) << "given twice";
}

TEST(RouteTable, ACloudWithHostPrefixesHasAnOnLinkGateway) {
  RouteTable table;
  ASSERT_TRUE(table.add_address(0, ip(10, 128, 0, 5), 128));
  EXPECT_FALSE(table.add_route(prefix(ip(0, 0, 0, 0), 0), ip(10, 128, 0, 1), 0));
  ASSERT_TRUE(table.add_on_link(prefix(ip(10, 128, 0, 1), 32), 0));
  ASSERT_TRUE(table.add_route(prefix(ip(0, 0, 0, 0), 0), ip(10, 128, 0, 1), 0));
  EXPECT_EQ(table.lookup(ip(10, 128, 0, 6))->next_hop, ip(10, 128, 0, 1));
  EXPECT_FALSE(table.is_broadcast(ip(10, 128, 0, 5)));
  EXPECT_FALSE(table.add_on_link(prefix(ip(10, 0, 0, 0), 8), 3)) << "a port without an address";
}

/// A port with a host address and a link of two, whose other end is the default router.
RouteTable routed_host(bool has_host_address_first) {
  RouteTable table;
  const auto add_host_address = [&] { return table.add_address(0, ip(192, 168, 5, 7), 128); };
  EXPECT_TRUE(!has_host_address_first || add_host_address());
  EXPECT_TRUE(table.add_address(0, ip(10, 0, 0, 1), 96 + 31));
  EXPECT_TRUE(has_host_address_first || add_host_address());
  EXPECT_TRUE(table.add_route(prefix(ip(0, 0, 0, 0), 0), ip(10, 0, 0, 0), 0));
  return table;
}

// Connections left from the address of the link, to which a fabric has no route.
TEST(RouteTable, WhatARoutedHostSendsIsFromItsFirstAddress) {
  const RouteTable table = routed_host(true);
  const auto routed = table.lookup(ip(192, 168, 5, 9));
  ASSERT_TRUE(routed);
  EXPECT_EQ(routed->next_hop, ip(10, 0, 0, 0));
  EXPECT_EQ(routed->source, ip(192, 168, 5, 7));
  EXPECT_EQ(table.lookup(ip(10, 0, 0, 0))->source, ip(10, 0, 0, 1)) << "on the link itself";
  EXPECT_EQ(table.lookup_from(ip(10, 0, 0, 1), ip(192, 168, 5, 9))->source, ip(10, 0, 0, 1));
}

TEST(RouteTable, AHostAddressThatIsNotTheFirstIsUsedOnlyWhereItIsNamed) {
  const RouteTable table = routed_host(false);
  EXPECT_EQ(table.lookup(ip(192, 168, 5, 9))->source, ip(10, 0, 0, 1));
  EXPECT_EQ(table.lookup_from(ip(192, 168, 5, 7), ip(192, 168, 5, 9))->next_hop, ip(10, 0, 0, 0));
}

TEST_F(RouteTableTest, AnotherNetworksAddressIsNotTheSourceThroughAGateway) {
  ASSERT_TRUE(table_.add_address(0, ip(10, 0, 2, 1), 96 + 24));
  ASSERT_TRUE(table_.add_route(prefix(ip(20, 0, 0, 0), 8), ip(10, 0, 2, 254), 0));
  EXPECT_EQ(table_.lookup(ip(20, 0, 0, 1))->source, ip(10, 0, 2, 1));
}

TEST(RouteTable, APointToPointPrefixHasNoBroadcast) {
  RouteTable table;
  ASSERT_TRUE(table.add_address(0, ip(10, 0, 0, 0), 96 + 31));
  EXPECT_FALSE(table.is_broadcast(ip(10, 0, 0, 1)));
  EXPECT_EQ(table.lookup(ip(10, 0, 0, 1))->next_hop, ip(10, 0, 0, 1));
}

TEST(RouteTable, SaysWhenItIsFull) {
  RouteTable table;
  ASSERT_TRUE(table.add_address(0, ip(10, 0, 0, 1), 96 + 24));
  unsigned added = 0;
  while (added < 2 * kRoutesMax &&
         table.add_route(prefix(ip(20, 0, added, 0), 24), ip(10, 0, 0, 2), 0)) {
    ++added;
  }
  EXPECT_EQ(added, kRoutesMax - 1);
  EXPECT_FALSE(table.add_address(1, ip(10, 0, 1, 1), 96 + 24));
}

constexpr IpAddress kOwn6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr IpAddress kFar6{{0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
constexpr IpAddress kLinkLocal{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr IpAddress kRouter6{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xfe}};

class RouteTable6Test : public RouteTableTest {
 protected:
  RouteTable6Test() {
    EXPECT_TRUE(table_.add_address(0, kLinkLocal, 64));
    EXPECT_TRUE(table_.add_address(0, kOwn6, 64));
  }
};

TEST_F(RouteTable6Test, FamiliesAreApart) {
  EXPECT_FALSE(table_.lookup(kFar6)) << "the default route of IPv4 is none of IPv6";
  RouteTable table;
  ASSERT_TRUE(table.add_address(0, kOwn6, 64));
  IpAddress router = kOwn6;
  router.bytes[15] = 0xfe;
  ASSERT_TRUE(table.add_route(Prefix{}, router, 0));
  EXPECT_EQ(table.lookup(kFar6)->next_hop, router);
  EXPECT_FALSE(table.lookup(ip(8, 8, 8, 8)));
}

TEST_F(RouteTable6Test, TheSourceHasTheScopeOfTheDestination) {
  // RFC 6724 5: rules 2 and 8.
  ASSERT_TRUE(table_.add_route(Prefix{}, kRouter6, 0));
  EXPECT_EQ(table_.lookup(kFar6)->next_hop, kRouter6);
  EXPECT_EQ(table_.lookup(kFar6)->source, kOwn6) << "not that of the router's network";
  EXPECT_EQ(table_.lookup(kRouter6)->source, kLinkLocal);
  IpAddress nearer = kFar6;
  nearer.bytes[15] = 1;
  ASSERT_TRUE(table_.add_address(0, nearer, 128));
  EXPECT_EQ(table_.lookup(kFar6)->source, nearer);
}

TEST_F(RouteTable6Test, ALearnedRouterComesAndGoes) {
  table_.set_default_router(0, kRouter6);
  EXPECT_EQ(table_.lookup(kFar6)->next_hop, kRouter6);
  IpAddress other = kRouter6;
  other.bytes[15] = 0xfd;
  table_.set_default_router(0, other);
  EXPECT_EQ(table_.lookup(kFar6)->next_hop, other);
  EXPECT_EQ(table_.lookup_from(kOwn6, kFar6)->next_hop, other);
  table_.set_default_router(0, std::nullopt);
  EXPECT_FALSE(table_.lookup(kFar6));
  EXPECT_TRUE(table_.lookup(ip(8, 8, 8, 8)));
}

TEST_F(RouteTable6Test, AConfiguredRouterGoesBeforeALearnedOne) {
  ASSERT_TRUE(table_.add_route(Prefix{}, kRouter6, 0));
  IpAddress other = kRouter6;
  other.bytes[15] = 0xfd;
  table_.set_default_router(0, other);
  EXPECT_EQ(table_.lookup(kFar6)->next_hop, kRouter6);
  table_.set_default_router(0, std::nullopt);
  EXPECT_EQ(table_.lookup(kFar6)->next_hop, kRouter6);
}

TEST_F(RouteTable6Test, AnAddressOfAnotherHostIsNotUsed) {
  table_.set_state(kOwn6, link::AddressState::kTentative);
  EXPECT_TRUE(table_.is_own(kOwn6));
  EXPECT_FALSE(table_.accepts(kOwn6));
  IpAddress peer = kOwn6;
  peer.bytes[15] = 7;
  EXPECT_TRUE(table_.lookup_from(kOwn6, peer)) << "it waits";
  table_.set_state(kOwn6, link::AddressState::kDuplicate);
  EXPECT_FALSE(table_.lookup_from(kOwn6, peer));
  EXPECT_EQ(table_.lookup(peer)->source, kLinkLocal);
  EXPECT_TRUE(table_.is_lost(kOwn6));
  EXPECT_FALSE(table_.is_own(kOwn6));
  EXPECT_FALSE(table_.is_martian_source(kOwn6)) << "that host may speak to us";
  EXPECT_FALSE(table_.lookup(kOwn6)->is_local);
}

TEST_F(RouteTable6Test, GroupsAreThoseOfTheAddresses) {
  // RFC 4291 2.8.
  EXPECT_TRUE(table_.is_joined(kAllNodes));
  EXPECT_TRUE(table_.is_joined(solicited_node_group(kOwn6)));
  EXPECT_FALSE(table_.is_joined(solicited_node_group(kFar6)));
  EXPECT_FALSE(table_.is_joined(kAllRouters));
}

TEST_F(RouteTable6Test, MartianSourcesAndTargets) {
  IpAddress loopback;
  loopback.bytes[15] = 1;
  for (const IpAddress& bad : {loopback, IpAddress{}, kAllNodes}) {
    EXPECT_TRUE(table_.is_martian_source(bad));
    EXPECT_FALSE(table_.lookup(bad));
  }
  EXPECT_TRUE(table_.is_martian_source(kOwn6));
  EXPECT_FALSE(table_.is_martian_source(kFar6));
}

}  // namespace
}  // namespace lyre::ip
