#include "stack/ip/route_table.h"

#include <gtest/gtest.h>

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
    EXPECT_TRUE(table_.add_route(prefix(ip(0, 0, 0, 0), 0), ip(10, 0, 0, 254)));
    EXPECT_TRUE(table_.add_route(prefix(ip(172, 16, 0, 0), 12), ip(10, 0, 1, 254)));
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
  ASSERT_TRUE(table_.add_route(prefix(ip(172, 17, 5, 5), 32), ip(10, 0, 0, 253)));
  EXPECT_EQ(table_.lookup(ip(172, 17, 5, 5))->next_hop, ip(10, 0, 0, 253));
}

TEST_F(RouteTableTest, OwnAddressesAreLocal) {
  const auto route = table_.lookup(ip(10, 0, 1, 1));
  ASSERT_TRUE(route);
  EXPECT_TRUE(route->is_local);
  EXPECT_EQ(route->port, 1);
}

TEST_F(RouteTableTest, AConnectionStaysOnThePortOfItsSource) {
  ASSERT_TRUE(table_.add_route_on_port(prefix(ip(0, 0, 0, 0), 0), ip(10, 0, 1, 254), 1));
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
  for (const IpAddress& bad :
       {ip(255, 255, 255, 255), ip(10, 0, 1, 255), ip(10, 0, 0, 0), ip(239, 1, 2, 3),
        ip(127, 0, 0, 1), ip(0, 0, 0, 0), ip(10, 0, 0, 1), ip(250, 0, 0, 1)}) {
    EXPECT_TRUE(table_.is_martian_source(bad));
  }
  EXPECT_FALSE(table_.is_martian_source(ip(10, 0, 0, 2)));
  EXPECT_FALSE(table_.is_martian_source(ip(192, 168, 1, 255)));
}

TEST_F(RouteTableTest, RefusesGatewaysThatCannotBeReached) {
  RouteTable table;
  EXPECT_FALSE(table.add_route(prefix(ip(0, 0, 0, 0), 0), ip(10, 0, 0, 254)));
  ASSERT_TRUE(table.add_address(0, ip(10, 0, 0, 1), 96 + 24));
  EXPECT_FALSE(table.add_route(prefix(ip(0, 0, 0, 0), 0), ip(10, 0, 0, 1)));
  EXPECT_FALSE(table.add_route(prefix(ip(0, 0, 0, 0), 0), ip(10, 0, 0, 255)));
  EXPECT_FALSE(table.add_route(prefix(ip(0, 0, 0, 0), 0), ip(10, 0, 1, 254)));
  EXPECT_FALSE(table.add_address(0, ip(10, 0, 0, 1), 96 + 24)) << "given twice";
}

TEST(RouteTable, ACloudWithHostPrefixesHasAnOnLinkGateway) {
  RouteTable table;
  ASSERT_TRUE(table.add_address(0, ip(10, 128, 0, 5), 128));
  EXPECT_FALSE(table.add_route(prefix(ip(0, 0, 0, 0), 0), ip(10, 128, 0, 1)));
  ASSERT_TRUE(table.add_on_link(prefix(ip(10, 128, 0, 1), 32), 0));
  ASSERT_TRUE(table.add_route(prefix(ip(0, 0, 0, 0), 0), ip(10, 128, 0, 1)));
  EXPECT_EQ(table.lookup(ip(10, 128, 0, 6))->next_hop, ip(10, 128, 0, 1));
  EXPECT_FALSE(table.is_broadcast(ip(10, 128, 0, 5)));
  EXPECT_FALSE(table.add_on_link(prefix(ip(10, 0, 0, 0), 8), 3)) << "a port without an address";
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
         table.add_route(prefix(ip(20, 0, added, 0), 24), ip(10, 0, 0, 2))) {
    ++added;
  }
  EXPECT_EQ(added, kRoutesMax - 1);
  EXPECT_FALSE(table.add_address(1, ip(10, 0, 1, 1), 96 + 24));
}

}  // namespace
}  // namespace lyre::ip
