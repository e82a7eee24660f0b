#include "stack/io/rss_spread.h"

#include <gtest/gtest.h>

#include <numeric>

namespace lyre::io {
namespace {

// The key and the results with which Microsoft's specification of RSS verifies an implementation.
const std::vector<uint8_t> kKey = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                                   0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                                   0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                                   0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

constexpr uint32_t dotted(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return a << 24 | b << 16 | c << 8 | d;
}

RssSpread spread_over(size_t entries) {
  RssSpread spread{.key = kKey, .hashes_ipv4 = true, .hashes_ipv6 = true};
  spread.queues.resize(entries);
  std::iota(spread.queues.begin(), spread.queues.end(), uint16_t{0});
  return spread;
}

TEST(RssSpread, FindsTheQueueByTheHashOfWhatIsReceived) {
  const RssSpread spread = spread_over(1 << 12);
  // Packets from `remote` to `local`.
  EXPECT_EQ(spread.queue_of({.local = {IpAddress::v4(dotted(161, 142, 100, 80)), 1766},
                             .remote = {IpAddress::v4(dotted(66, 9, 149, 187)), 2794}}),
            0x51ccc178u % (1 << 12));
  EXPECT_EQ(spread.queue_of({.local = {IpAddress::v4(dotted(65, 69, 140, 83)), 4739},
                             .remote = {IpAddress::v4(dotted(199, 92, 111, 2)), 14230}}),
            0xc626b0eau % (1 << 12));
}

TEST(RssSpread, HashesIpv6) {
  const IpAddress local = {{0x3f, 0xfe, 0x25, 0x01, 0x02, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1}};
  const IpAddress remote = {{0x3f, 0xfe, 0x25, 0x01, 0x02, 0, 0x1f, 0xff, 0, 0, 0, 0, 0, 0, 0, 7}};
  EXPECT_EQ(spread_over(1 << 12).queue_of({.local = {local, 1766}, .remote = {remote, 2794}}),
            0x40207d3du % (1 << 12));
}

TEST(RssSpread, SaysNothingOfWhatIsNotKnown) {
  const FourTuple tuple = {.local = {IpAddress::v4(1), 1}, .remote = {IpAddress::v4(2), 2}};
  EXPECT_EQ(RssSpread{}.queue_of(tuple), std::nullopt);
  RssSpread spread = spread_over(16);
  spread.hashes_ipv4 = false;
  EXPECT_EQ(spread.queue_of(tuple), std::nullopt);
  spread = spread_over(16);
  spread.key.resize(15);  // 16 are needed
  EXPECT_EQ(spread.queue_of(tuple), std::nullopt);
}

}  // namespace
}  // namespace lyre::io
