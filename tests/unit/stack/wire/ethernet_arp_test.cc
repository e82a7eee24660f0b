#include <gtest/gtest.h>

#include <algorithm>

#include "stack/wire/arp.h"
#include "stack/wire/ethernet.h"
#include "tests/unit/stack/wire/bytes_of.h"

namespace lyre::wire {
namespace {

constexpr char kRequestDump[] =
    "ff ff ff ff ff ff 02 00 00 00 00 01 08 06 "
    "00 01 08 00 06 04 00 01 02 00 00 00 00 01 0a 00 00 01 00 00 00 00 00 00 0a 00 00 02";

TEST(Ethernet, ReadsAndWritesTheSameBytes) {
  const std::vector<uint8_t> frame = bytes_of(kRequestDump);
  Drop drop{};
  const auto header = parse_ethernet(frame, drop);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->destination, kMacBroadcast);
  EXPECT_EQ(header->type, kEtherTypeArp);
  std::array<uint8_t, kEthernetHeaderBytes> out{};
  write_ethernet(*header, out);
  EXPECT_TRUE(std::equal(out.begin(), out.end(), frame.begin()));
}

TEST(Ethernet, ThirteenBytesAreTooShort) {
  const std::vector<uint8_t> frame(13);
  Drop drop{};
  EXPECT_FALSE(parse_ethernet(frame, drop));
  EXPECT_EQ(drop, Drop::kEthTooShort);
}

TEST(Arp, ReadsAndWritesTheSameBytes) {
  const std::vector<uint8_t> frame = bytes_of(kRequestDump);
  const std::span<const uint8_t> body = std::span(frame).subspan(kEthernetHeaderBytes);
  Drop drop{};
  const auto packet = parse_arp(body, drop);
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->operation, ArpOperation::kRequest);
  EXPECT_EQ(packet->sender_ip.as_v4(), 0x0a000001u);
  EXPECT_EQ(packet->target_ip.as_v4(), 0x0a000002u);
  std::array<uint8_t, kArpBytes> out{};
  write_arp(*packet, out);
  EXPECT_TRUE(std::equal(out.begin(), out.end(), body.begin()));
}

TEST(Arp, RefusesEachWrongField) {
  const std::vector<uint8_t> frame = bytes_of(kRequestDump);
  const std::vector<uint8_t> good(frame.begin() + kEthernetHeaderBytes, frame.end());
  for (size_t at : {0, 1, 2, 3, 4, 5, 6, 7}) {
    std::vector<uint8_t> bad = good;
    bad[at] ^= 0x40;
    Drop drop{};
    EXPECT_FALSE(parse_arp(bad, drop)) << "byte " << at;
    EXPECT_EQ(drop, Drop::kArpMalformed);
  }
  Drop drop{};
  EXPECT_FALSE(parse_arp(std::span(good).first(kArpBytes - 1), drop));
}

}  // namespace
}  // namespace lyre::wire
