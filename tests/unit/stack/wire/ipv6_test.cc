#include "stack/wire/ipv6.h"

#include <gtest/gtest.h>

#include "stack/base/ipv6_address.h"
#include "tests/unit/stack/wire/bytes_of.h"

namespace lyre::wire {
namespace {

// fd00::2 -> fd00::1, traffic class 0xb9 (DSCP 46, ECT(1)), flow label 0xabcde, hop limit 63.
constexpr char kHeaderDump[] =
    "6b 9a bc de 00 08 06 3f fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02 "
    "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01";

/// The packet of kHeaderDump with other headers after its own.
std::vector<uint8_t> packet_of(uint8_t next_header, const char* rest) {
  std::vector<uint8_t> out = bytes_of(kHeaderDump);
  const std::vector<uint8_t> more = bytes_of(rest);
  out.insert(out.end(), more.begin(), more.end());
  out[5] = static_cast<uint8_t>(more.size());
  out[6] = next_header;
  return out;
}

struct Skipped {
  std::optional<UpperLayer> upper;
  Drop drop = Drop::kCount;
  std::optional<ParameterProblem> problem;
};

Skipped skip(const std::vector<uint8_t>& packet) {
  Skipped out;
  out.upper = skip_extensions(packet, out.drop, out.problem);
  return out;
}

void expect_problem(const Skipped& skipped, uint8_t code, uint32_t pointer) {
  EXPECT_FALSE(skipped.upper);
  EXPECT_EQ(skipped.drop, Drop::kIpBadExtension);
  ASSERT_TRUE(skipped.problem);
  EXPECT_EQ(skipped.problem->code, code);
  EXPECT_EQ(skipped.problem->pointer, pointer);
}

void expect_silence(const Skipped& skipped, Drop drop = Drop::kIpBadExtension) {
  EXPECT_FALSE(skipped.upper);
  EXPECT_EQ(skipped.drop, drop);
  EXPECT_FALSE(skipped.problem);
}

TEST(Ipv6, ReadsAHeader) {
  const auto packet = packet_of(6, "01 02 03 04 05 06 07 08");
  Drop drop{};
  const auto ip = parse_ipv6(packet, drop);
  ASSERT_TRUE(ip);
  EXPECT_EQ(ip->dscp, 46);
  EXPECT_EQ(ip->ecn, Ecn::kEct1);
  EXPECT_EQ(ip->flow_label, 0xabcdeu);
  EXPECT_EQ(ip->payload_bytes, 8u);
  EXPECT_EQ(ip->next_header, 6);
  EXPECT_EQ(ip->hop_limit, 63);
  EXPECT_EQ(ip->source.bytes[15], 2);
  EXPECT_EQ(ip->destination.bytes[15], 1);
  EXPECT_EQ(ip->destination.bytes[0], 0xfd);
}

TEST(Ipv6, RefusesShortAndOtherVersions) {
  auto packet = packet_of(6, "01 02 03 04 05 06 07 08");
  Drop drop{};
  EXPECT_FALSE(parse_ipv6(std::span(packet).first(39), drop));
  EXPECT_EQ(drop, Drop::kIpTooShort);
  EXPECT_FALSE(parse_ipv6(std::span(packet).first(47), drop));
  EXPECT_EQ(drop, Drop::kIpTooShort);
  EXPECT_TRUE(parse_ipv6_quoted(std::span(packet).first(47), drop));
  packet[0] = 0x4b;
  EXPECT_FALSE(parse_ipv6(packet, drop));
  EXPECT_EQ(drop, Drop::kIpBadVersion);
}

TEST(Ipv6, WhatIsWrittenIsRead) {
  Ipv6Header header;
  header.source = link_local_address({{2, 0, 0, 0, 0, 1}});
  header.destination = kAllNodes;
  header.flow_label = 0xfffff;
  header.payload_bytes = 0;
  header.next_header = kIpProtocolIcmpv6;
  header.marking.hop_limit = 255;
  header.ecn = Ecn::kCe;
  std::vector<uint8_t> out(kIpv6HeaderBytes);
  write_ipv6(header, std::span<uint8_t, kIpv6HeaderBytes>(out));
  Drop drop{};
  const auto back = parse_ipv6(out, drop);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->source, header.source);
  EXPECT_EQ(back->destination, header.destination);
  EXPECT_EQ(back->flow_label, header.flow_label);
  EXPECT_EQ(back->hop_limit, 255);
  EXPECT_EQ(back->ecn, Ecn::kCe);
  EXPECT_EQ(back->dscp, 0);
}

TEST(Ipv6, DerivesAddresses) {
  // RFC 4291 2.7.1, 2.5.6 and appendix A, RFC 2464 7: the examples of the RFCs.
  IpAddress address{{0x40, 0x37, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 8, 0x0e, 0x8c, 0x6c}};
  const IpAddress group = solicited_node_group(address);
  EXPECT_EQ(group, (IpAddress{{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0x0e, 0x8c, 0x6c}}));
  EXPECT_EQ(multicast_mac(group), (MacAddress{{0x33, 0x33, 0xff, 0x0e, 0x8c, 0x6c}}));
  EXPECT_EQ(
      link_local_address({{0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde}}),
      (IpAddress{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x36, 0x56, 0x78, 0xff, 0xfe, 0x9a, 0xbc, 0xde}}));
}

TEST(Ipv6Extensions, NoneIsTheCommonCase) {
  const auto skipped = skip(packet_of(kIpProtocolTcp, "00 00 00 00"));
  ASSERT_TRUE(skipped.upper);
  EXPECT_EQ(skipped.upper->protocol, kIpProtocolTcp);
  EXPECT_EQ(skipped.upper->protocol_at, 6u);
  EXPECT_EQ(skipped.upper->offset_bytes, 40u);
}

TEST(Ipv6Extensions, SkipsHopByHopRoutingAndDestinationOptions) {
  // Router alert and padding; routing type 4 with no segments left; PadN.
  const auto skipped = skip(packet_of(0,
                                      "2b 00 05 02 00 00 00 00"
                                      "3c 00 04 00 00 00 00 00"
                                      "06 00 01 04 00 00 00 00"));
  ASSERT_TRUE(skipped.upper);
  EXPECT_EQ(skipped.upper->protocol, kIpProtocolTcp);
  EXPECT_EQ(skipped.upper->protocol_at, 56u);
  EXPECT_EQ(skipped.upper->offset_bytes, 64u);
  EXPECT_FALSE(skipped.upper->had_fragment_header);
}

TEST(Ipv6Extensions, OptionsThatAreNotKnown) {
  // RFC 8200 4.2: skip, discard, discard and report, report unless it was multicast.
  EXPECT_TRUE(skip(packet_of(60, "06 00 1e 01 00 00 00 00")).upper);
  expect_silence(skip(packet_of(60, "06 00 5e 01 00 00 00 00")));
  const auto always = skip(packet_of(60, "06 00 9e 01 00 00 00 00"));
  expect_problem(always, kProblemOption, 42);
  EXPECT_TRUE(always.problem->is_for_multicast_too);
  const auto sometimes = skip(packet_of(60, "06 00 00 de 01 00 00 00"));
  expect_problem(sometimes, kProblemOption, 43);
  EXPECT_FALSE(sometimes.problem->is_for_multicast_too);
}

TEST(Ipv6Extensions, HopByHopElsewhereIsAnUnknownHeader) {
  // RFC 8200 4.1, and 4: the pointer is that of the next-header field.
  expect_problem(skip(packet_of(60, "00 00 01 04 00 00 00 00 06 00 01 04 00 00 00 00")),
                 kProblemNextHeader, 40);
}

TEST(Ipv6Extensions, ARouteStillToGoIsRefused) {
  // RFC 8200 4.4, RFC 5095: type 0 is treated like any unknown type.
  expect_problem(skip(packet_of(43, "06 00 00 01 00 00 00 00")), kProblemHeaderField, 42);
}

TEST(Ipv6Extensions, FragmentsAreRefusedUnlessTheyAreTheWhole) {
  expect_silence(skip(packet_of(44, "06 00 00 01 00 00 00 07 00 00 00 00")), Drop::kIpFragment);
  expect_silence(skip(packet_of(44, "06 00 00 08 00 00 00 07 00 00 00 00")), Drop::kIpFragment);
  const auto atomic = skip(packet_of(44, "06 00 00 00 00 00 00 07 00 00 00 00"));
  ASSERT_TRUE(atomic.upper);
  EXPECT_TRUE(atomic.upper->had_fragment_header);
  EXPECT_EQ(atomic.upper->offset_bytes, 48u);
}

TEST(Ipv6Extensions, WhatRunsOverThePacketIsRefused) {
  expect_silence(skip(packet_of(0, "06 00 01 04")));
  expect_silence(skip(packet_of(0, "06 01 01 04 00 00 00 00")));
  expect_silence(skip(packet_of(0, "06 00 01 05 00 00 00 00")));
  expect_silence(skip(packet_of(0, "06 00 00 00 00 00 00 1e")));
  expect_silence(skip(packet_of(44, "06 00 00 00")));
}

TEST(Ipv6Extensions, ThereIsALimit) {
  // RFC 8504 5.3.
  std::vector<uint8_t> packet = packet_of(60, "");
  const auto one = bytes_of("3c 00 01 04 00 00 00 00");
  for (uint32_t i = 0; i < kExtensionHeadersMax; ++i) {
    packet.insert(packet.end(), one.begin(), one.end());
  }
  packet[packet.size() - 8] = kIpProtocolTcp;
  EXPECT_TRUE(skip(packet).upper);
  packet[packet.size() - 8] = 60;
  packet.insert(packet.end(), one.begin(), one.end());
  expect_silence(skip(packet));

  std::vector<uint8_t> padded = packet_of(60, "06 04 00 00 00 00 00 00");
  padded.resize(40 + 40);
  expect_silence(skip(padded));
}

}  // namespace
}  // namespace lyre::wire
