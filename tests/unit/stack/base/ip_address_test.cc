#include "stack/base/ip_address.h"

#include <gtest/gtest.h>

namespace lyre {
namespace {

TEST(IpAddress, Ipv4TravelsMapped) {
  // RFC 4291 2.5.5.2.
  const IpAddress address = IpAddress::v4(0x0a000102);
  EXPECT_TRUE(address.is_v4());
  EXPECT_EQ(address.as_v4(), 0x0a000102u);
  EXPECT_EQ(address.bytes[11], 0xff);
  EXPECT_EQ(address.bytes[15], 2);
  EXPECT_FALSE(address.is_unspecified());
}

TEST(IpAddress, BothZeroAddressesAreUnspecified) {
  EXPECT_TRUE(IpAddress{}.is_unspecified());
  EXPECT_FALSE(IpAddress{}.is_v4());
  EXPECT_TRUE(IpAddress::v4(0).is_unspecified());
}

TEST(IpAddress, GroupsAndSpecialNetworksAreNoUnicastAddressesOfIpv4) {
  for (const uint32_t host :
       {0x01000000u, 0x7e000001u, 0x80000001u, 0xdfffffffu, 0xf0000001u, 0xffffffffu - 1}) {
    EXPECT_TRUE(is_ipv4_unicast(host)) << std::hex << host;
  }
  for (const uint32_t other :
       {0u, 0x00ffffffu, 0x7f000001u, 0xe0000000u, 0xefffffffu, 0xffffffffu}) {
    EXPECT_FALSE(is_ipv4_unicast(other)) << std::hex << other;
  }
}

}  // namespace
}  // namespace lyre
