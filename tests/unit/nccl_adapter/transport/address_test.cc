#include "nccl_adapter/transport/address.h"

#include <gtest/gtest.h>

namespace lyre::nccl_adapter {
namespace {

// As the protocol carries IPv4: mapped into IPv6 (RFC 4291 2.5.5.2).
constexpr Address kIpv4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1};
constexpr Address kIpv6 = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

TEST(AddressText, NamesAddressAndPort) {
  EXPECT_EQ(to_string(make_addr(kIpv4, 5000)), "10.9.0.1:5000");
  EXPECT_EQ(to_string(make_addr(kIpv6, 80)), "[fd00::1]:80");
  EXPECT_EQ(to_string(kIpv4), "10.9.0.1");
  EXPECT_EQ(to_string(kIpv6), "[fd00::1]");
}

TEST(AddressFamily, IsThatOfTheMappedAddress) {
  EXPECT_TRUE(is_ipv4(kIpv4));
  EXPECT_FALSE(is_ipv4(kIpv6));
}

TEST(AddressScope, IsLinkLocalInBothFamilies) {
  EXPECT_FALSE(is_link_local(kIpv4));
  EXPECT_FALSE(is_link_local(kIpv6));
  EXPECT_TRUE(is_link_local({0xfe, 0xbf, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_TRUE(is_link_local({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 169, 254, 0, 1}));
}

TEST(AddressText, OnlyTheUnspecifiedAddressIsNone) {
  EXPECT_TRUE(is_none(Address{}));
  EXPECT_FALSE(is_none(kIpv4));
}

}  // namespace
}  // namespace lyre::nccl_adapter
