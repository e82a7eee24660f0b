#include "stack/wire/icmp.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "stack/base/checksum.h"
#include "stack/wire/bytes.h"
#include "tests/unit/stack/wire/bytes_of.h"

namespace lyre::wire {
namespace {

std::vector<uint8_t> with_checksum(std::vector<uint8_t> message) {
  message[2] = message[3] = 0;
  ChecksumSum sum;
  sum.add(message);
  write_raw16(message.data() + 2, sum.finish());
  return message;
}

// 10.0.0.1:0x1234 -> 10.0.0.2:80, seq 0xdeadbeef, as a router quotes it.
constexpr char kQuoteDump[] =
    "45 00 05 dc 00 01 40 00 40 06 00 00 0a 00 00 01 0a 00 00 02 12 34 00 50 de ad be ef";

TEST(Icmp, ReadsAnEchoRequest) {
  const auto message = with_checksum(bytes_of("08 00 00 00 12 34 00 07 61 62 63"));
  Drop drop{};
  const auto icmp = parse_icmp(message, drop);
  ASSERT_TRUE(icmp);
  EXPECT_EQ(icmp->type, kIcmpEchoRequest);
  EXPECT_EQ(icmp->echo_id, 0x1234);
  EXPECT_EQ(icmp->echo_sequence, 7);
  EXPECT_EQ(icmp->body.size(), 3u);
}

TEST(Icmp, RefusesShortAndCorrupt) {
  auto message = with_checksum(bytes_of("08 00 00 00 12 34 00 07 61"));
  Drop drop{};
  EXPECT_FALSE(parse_icmp(std::span(message).first(7), drop));
  EXPECT_EQ(drop, Drop::kIcmpMalformed);
  for (size_t at = 0; at < message.size(); ++at) {
    message[at] ^= 1;
    EXPECT_FALSE(parse_icmp(message, drop)) << "byte " << at;
    message[at] ^= 1;
  }
  EXPECT_TRUE(parse_icmp(message, drop));
}

TEST(Icmp, AReplyEchoesTheRequest) {
  const auto message = with_checksum(bytes_of("08 00 00 00 12 34 00 07 61 62 63"));
  Drop drop{};
  const auto request = parse_icmp(message, drop);
  ASSERT_TRUE(request);
  std::vector<uint8_t> reply(kIcmpHeaderBytes);
  reply.insert(reply.end(), request->body.begin(), request->body.end());
  write_echo_reply(*request, reply);
  const auto back = parse_icmp(reply, drop);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->type, kIcmpEchoReply);
  EXPECT_EQ(back->echo_id, 0x1234);
  EXPECT_EQ(back->echo_sequence, 7);
  EXPECT_TRUE(std::equal(back->body.begin(), back->body.end(), request->body.begin()));
}

TEST(Icmp, ReadsAQuotedSegment) {
  Drop drop{};
  const auto quoted = parse_quoted_tcp(bytes_of(kQuoteDump), drop);
  ASSERT_TRUE(quoted);
  EXPECT_EQ(quoted->sent.local, (Endpoint{IpAddress::v4(0x0a000001), 0x1234}));
  EXPECT_EQ(quoted->sent.remote, (Endpoint{IpAddress::v4(0x0a000002), 80}));
  EXPECT_EQ(quoted->seq, SeqNum(0xdeadbeef));
  EXPECT_EQ(quoted->total_bytes, 1500);
}

TEST(Icmp, RefusesQuotesThatAreNotAFirstTcpFragment) {
  const auto good = bytes_of(kQuoteDump);
  Drop drop{};
  for (size_t count = 0; count < good.size(); ++count) {
    EXPECT_FALSE(parse_quoted_tcp(std::span(good).first(count), drop)) << count;
    EXPECT_EQ(drop, Drop::kIcmpBadQuote);
  }
  auto udp = good;
  udp[9] = 17;
  EXPECT_FALSE(parse_quoted_tcp(udp, drop));
  auto later_fragment = good;
  later_fragment[7] = 1;
  EXPECT_FALSE(parse_quoted_tcp(later_fragment, drop));
}

}  // namespace
}  // namespace lyre::wire
