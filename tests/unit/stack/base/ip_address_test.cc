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

}  // namespace
}  // namespace lyre
