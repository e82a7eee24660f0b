#include "stack/wire/ipv4.h"

#include <gtest/gtest.h>

#include "tests/unit/stack/wire/bytes_of.h"

namespace lyre::wire {
namespace {

// A common textbook header, whose checksum is b861.
constexpr char kTextbookDump[] = "45 00 00 73 00 00 40 00 40 11 b8 61 c0 a8 00 01 c0 a8 00 c7";

std::vector<uint8_t> textbook_packet() {
  std::vector<uint8_t> packet = bytes_of(kTextbookDump);
  packet.resize(0x73);
  return packet;
}

TEST(Ipv4, ReadsTheFields) {
  Drop drop{};
  const auto ip = parse_ipv4(textbook_packet(), drop);
  ASSERT_TRUE(ip);
  EXPECT_EQ(ip->source.as_v4(), 0xc0a80001u);
  EXPECT_EQ(ip->destination.as_v4(), 0xc0a800c7u);
  EXPECT_EQ(ip->total_bytes, 0x73);
  EXPECT_EQ(ip->header_bytes, 20);
  EXPECT_EQ(ip->protocol, 17);
  EXPECT_EQ(ip->ttl, 64);
  EXPECT_TRUE(ip->dont_fragment);
  EXPECT_FALSE(ip->is_fragment());
}

TEST(Ipv4, VerifiesTheChecksum) {
  std::vector<uint8_t> header = bytes_of(kTextbookDump);
  EXPECT_TRUE(ipv4_checksum_ok(header));
  for (size_t at = 0; at < header.size(); ++at) {
    header[at] ^= 0x10;
    EXPECT_FALSE(ipv4_checksum_ok(header)) << "byte " << at;
    header[at] ^= 0x10;
  }
}

TEST(Ipv4, EveryTruncationIsTooShort) {
  const std::vector<uint8_t> packet = textbook_packet();
  for (size_t count = 0; count < packet.size(); ++count) {
    Drop drop{};
    EXPECT_FALSE(parse_ipv4(std::span(packet).first(count), drop)) << count;
    EXPECT_EQ(drop, Drop::kIpTooShort) << count;
  }
}

TEST(Ipv4, RefusesOtherVersionsAndImpossibleLengths) {
  std::vector<uint8_t> packet = textbook_packet();
  Drop drop{};
  packet[0] = 0x65;
  EXPECT_FALSE(parse_ipv4(packet, drop));
  EXPECT_EQ(drop, Drop::kIpBadVersion);
  packet[0] = 0x44;
  EXPECT_FALSE(parse_ipv4(packet, drop));
  EXPECT_EQ(drop, Drop::kIpBadHeaderLength);
  packet[0] = 0x45;
  packet[2] = 0;
  packet[3] = 19;
  EXPECT_FALSE(parse_ipv4(packet, drop));
  EXPECT_EQ(drop, Drop::kIpBadHeaderLength);
}

TEST(Ipv4, ReadsFragmentsAndEcn) {
  std::vector<uint8_t> packet = textbook_packet();
  packet[1] = 0xbb;
  packet[6] = 0x20;
  packet[7] = 0x03;
  Drop drop{};
  const auto ip = parse_ipv4(packet, drop);
  ASSERT_TRUE(ip);
  EXPECT_EQ(ip->ecn, Ecn::kCe);
  EXPECT_EQ(ip->dscp, 46);
  EXPECT_TRUE(ip->more_fragments);
  EXPECT_EQ(ip->fragment_offset_bytes, 24);
  EXPECT_TRUE(ip->is_fragment());
}

TEST(Ipv4, AQuotedPacketMayBeCutOff) {
  const std::vector<uint8_t> header = bytes_of(kTextbookDump);
  Drop drop{};
  EXPECT_FALSE(parse_ipv4(header, drop));
  ASSERT_TRUE(parse_ipv4_quoted(header, drop));
}

TEST(Ipv4, WritesWhatItReads) {
  Ipv4Header header;
  header.source = IpAddress::v4(0x0a000001);
  header.destination = IpAddress::v4(0x0a000002);
  header.total_bytes = 20;
  header.id = 0xbeef;
  header.protocol = kIpProtocolTcp;
  header.ecn = Ecn::kEct0;
  std::array<uint8_t, kIpv4HeaderBytesMin> out{};
  write_ipv4(header, ChecksumField::kComputed, out);
  EXPECT_TRUE(ipv4_checksum_ok(out));
  Drop drop{};
  const auto ip = parse_ipv4(out, drop);
  ASSERT_TRUE(ip);
  EXPECT_EQ(ip->source, header.source);
  EXPECT_EQ(ip->destination, header.destination);
  EXPECT_EQ(ip->id, 0xbeef);
  EXPECT_EQ(ip->ttl, 64);
  EXPECT_EQ(ip->ecn, Ecn::kEct0);
  EXPECT_TRUE(ip->dont_fragment);
  write_ipv4(header, ChecksumField::kZero, out);
  EXPECT_EQ(out[10], 0);
  EXPECT_EQ(out[11], 0);
}

}  // namespace
}  // namespace lyre::wire
