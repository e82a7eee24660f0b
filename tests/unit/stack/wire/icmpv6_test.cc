#include "stack/wire/icmpv6.h"

#include <gtest/gtest.h>

#include "stack/base/ipv6_address.h"
#include "stack/wire/bytes.h"
#include "tests/unit/stack/wire/bytes_of.h"

namespace lyre::wire {
namespace {

const AddressPair kPeerToUs{{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}},
                            {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}};

// fd00::1 port 0x1234 -> fd00::2 port 80, seq 0xdeadbeef, 1500 bytes, as a router quotes it.
constexpr char kQuoteDumpIpv6[] =
    "60 00 00 00 05 b4 06 40 fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 "
    "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02 12 34 00 50 de ad be ef";

TEST(Icmpv6, KnowsTheChecksumOfARealPing) {
  // The sum was computed independently of this code: pseudo-header (RFC 8200 8.1) fd00::2 ->
  // fd00::1, 12, 58, and the message.
  const auto message = bytes_of("80 00 ae b2 12 34 00 07 61 62 63 64");
  Drop drop{};
  const auto icmp = parse_icmpv6(kPeerToUs, message, drop);
  ASSERT_TRUE(icmp);
  EXPECT_EQ(icmp->type, kIcmpv6EchoRequest);
  EXPECT_EQ(icmp->echo_id, 0x1234);
  EXPECT_EQ(icmp->echo_sequence, 7);
  EXPECT_EQ(icmp->body.size(), 4u);
}

TEST(Icmpv6, RefusesShortAndCorruptAndWhatWasMeantForAnother) {
  auto message = bytes_of("80 00 ae b2 12 34 00 07 61 62 63 64");
  Drop drop{};
  EXPECT_FALSE(parse_icmpv6(kPeerToUs, std::span(message).first(7), drop));
  EXPECT_EQ(drop, Drop::kIcmpMalformed);
  for (size_t at = 0; at < message.size(); ++at) {
    message[at] ^= 1;
    EXPECT_FALSE(parse_icmpv6(kPeerToUs, message, drop)) << "byte " << at;
    message[at] ^= 1;
  }
  AddressPair other = kPeerToUs;
  other.destination.bytes[15] = 9;
  EXPECT_FALSE(parse_icmpv6(other, message, drop));
}

TEST(Icmpv6, AReplyEchoesTheRequest) {
  // RFC 4443 4.2.
  const auto message = bytes_of("80 00 ae b2 12 34 00 07 61 62 63 64");
  Drop drop{};
  const auto request = parse_icmpv6(kPeerToUs, message, drop);
  ASSERT_TRUE(request);
  std::vector<uint8_t> reply(kIcmpHeaderBytes);
  reply.insert(reply.end(), request->body.begin(), request->body.end());
  const AddressPair back{kPeerToUs.destination, kPeerToUs.source};
  write_echo_reply6(*request, back, reply);
  const auto read = parse_icmpv6(back, reply, drop);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->type, kIcmpv6EchoReply);
  EXPECT_EQ(read->echo_id, 0x1234);
  EXPECT_EQ(read->echo_sequence, 7);
  EXPECT_EQ(read->body.size(), 4u);
}

TEST(Icmpv6, WritesAParameterProblem) {
  // RFC 4443 3.4.
  std::vector<uint8_t> out(kIcmpHeaderBytes + 40, 0x5a);
  write_parameter_problem({kProblemOption, false, 42}, kPeerToUs, out);
  Drop drop{};
  const auto read = parse_icmpv6(kPeerToUs, out, drop);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->type, kIcmpv6ParameterProblem);
  EXPECT_EQ(read->code, kProblemOption);
  EXPECT_EQ(read_be32(out.data() + 4), 42u);
}

TEST(Icmpv6, ReadsAQuotedSegment) {
  const auto body = bytes_of(kQuoteDumpIpv6);
  Drop drop{};
  const auto quoted = parse_quoted_tcp6(body, drop);
  ASSERT_TRUE(quoted);
  EXPECT_EQ(quoted->sent.local.address, kPeerToUs.destination);
  EXPECT_EQ(quoted->sent.local.port, 0x1234);
  EXPECT_EQ(quoted->sent.remote.address, kPeerToUs.source);
  EXPECT_EQ(quoted->sent.remote.port, 80);
  EXPECT_EQ(quoted->seq, SeqNum(0xdeadbeef));
  EXPECT_EQ(quoted->total_bytes, 1500u);
}

TEST(Icmpv6, RefusesAQuoteOfSomethingElse) {
  const auto good = bytes_of(kQuoteDumpIpv6);
  Drop drop{};
  EXPECT_FALSE(parse_quoted_tcp6(std::span(good).first(47), drop));
  EXPECT_EQ(drop, Drop::kIcmpBadQuote);
  auto udp = good;
  udp[6] = 17;
  EXPECT_FALSE(parse_quoted_tcp6(udp, drop));
  auto mapped = good;
  for (size_t at = 8; at < 18; ++at) mapped[at] = 0;
  mapped[18] = mapped[19] = 0xff;
  EXPECT_FALSE(parse_quoted_tcp6(mapped, drop)) << "a connection of IPv4 is meant";
  EXPECT_EQ(drop, Drop::kIcmpBadQuote);
}

}  // namespace
}  // namespace lyre::wire
