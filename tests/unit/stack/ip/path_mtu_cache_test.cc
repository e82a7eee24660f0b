#include "stack/ip/path_mtu_cache.h"

#include <gtest/gtest.h>

#include <memory>

namespace lyre::ip {
namespace {

constexpr IpAddress kThere = IpAddress::v4(0x0a000001);
constexpr IpAddress kElsewhere = IpAddress::v4(0x0a000002);

TEST(PathMtuCache, RemembersTheLastMtuOfADestination) {  // RFC 1191 6.3
  const auto cache = std::make_unique<PathMtuCache>(SipKey{.k0 = 1, .k1 = 2});
  EXPECT_FALSE(cache->find(kThere, seconds(1)).has_value());
  cache->note(kThere, 1400, seconds(1));
  cache->note(kThere, 1300, seconds(2));
  const auto path = cache->find(kThere, seconds(3));
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path->mtu_bytes, 1300u);
  EXPECT_EQ(path->noted_at, seconds(2));
  EXPECT_FALSE(cache->find(kElsewhere, seconds(3)).has_value());
}

TEST(PathMtuCache, ForgetsAfterTenMinutes) {  // RFC 8201 5.3
  const auto cache = std::make_unique<PathMtuCache>(SipKey{.k0 = 1, .k1 = 2});
  cache->note(kThere, 1400, seconds(1));
  EXPECT_TRUE(cache->find(kThere, seconds(600)).has_value());
  EXPECT_FALSE(cache->find(kThere, seconds(601)).has_value());
}

TEST(PathMtuCache, ManyDestinationsTakeNoMoreMemory) {
  const auto cache = std::make_unique<PathMtuCache>(SipKey{.k0 = 1, .k1 = 2});
  for (uint32_t i = 0; i < 100'000; ++i) cache->note(IpAddress::v4(i), 1000 + i % 400, seconds(1));
  const auto last = cache->find(IpAddress::v4(99'999), seconds(1));
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->mtu_bytes, 1000u + 99'999 % 400);
}

}  // namespace
}  // namespace lyre::ip
