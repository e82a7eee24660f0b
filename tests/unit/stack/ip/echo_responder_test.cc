#include "stack/ip/echo_responder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/stack/ip/frame_builder.h"

namespace lyre::ip {
namespace {

class EchoResponderTest : public testing::Test {
 protected:
  EchoResponderTest() {
    routes_.add_address(0, kOwnIp, 96 + 24);
    const std::vector<uint8_t> body = {'p', 'i', 'n', 'g', '!'};
    frame_ =
        ip_frame(wire::kIpProtocolIcmp, icmp_message(wire::kIcmpEchoRequest, 0, 0x00010002, body));
    const io::PacketBuf packet = received(frame_);
    EXPECT_EQ(classify(packet, kOwnMac, routes_, Origin::kWire, classified_),
              InputKind::kEchoRequest);
  }
  std::optional<Drop> reply(TestPacket& out, Nanos now) {
    return responder_.write_reply(classified_.echo, {kOwnMac, kPeerMac}, 1, now, out.buf);
  }

  RouteTable routes_;
  std::vector<uint8_t> frame_;
  Classified classified_;
  EchoResponder responder_;
};

TEST_F(EchoResponderTest, TheReplyGoesBackWithTheSameData) {
  TestPacket out;
  ASSERT_FALSE(reply(out, seconds(1)));
  EXPECT_FALSE(out.buf.wants_checksums);
  const auto bytes = out.buf.bytes();
  Drop drop{};
  const auto ip = wire::parse_ipv4(bytes.subspan(14), drop);
  ASSERT_TRUE(ip);
  EXPECT_TRUE(wire::ipv4_checksum_ok(bytes.subspan(14, 20)));
  EXPECT_EQ(ip->source, kOwnIp);
  EXPECT_EQ(ip->destination, kPeerIp);
  EXPECT_EQ(ip->total_bytes + 14u, bytes.size());
  const auto icmp = wire::parse_icmp(bytes.subspan(34), drop);
  ASSERT_TRUE(icmp);
  EXPECT_EQ(icmp->type, wire::kIcmpEchoReply);
  EXPECT_EQ(icmp->echo_sequence, 2);
  EXPECT_EQ(icmp->body.size(), 5u);
  EXPECT_EQ(icmp->body[4], '!');
}

TEST_F(EchoResponderTest, WithholdsRepliesBeyondTheRate) {
  uint32_t sent = 0;
  for (int i = 0; i < 1000; ++i) {
    TestPacket out;
    const auto drop = reply(out, seconds(100));
    if (!drop) {
      ++sent;
      continue;
    }
    EXPECT_EQ(*drop, Drop::kIcmpRateLimited);
    EXPECT_EQ(out.buf.length, 0u);
  }
  EXPECT_EQ(sent, kEchoReplyBurst);
  TestPacket out;
  EXPECT_FALSE(reply(out, seconds(100) + millis(1))) << "one more after a millisecond";
  TestPacket another;
  EXPECT_TRUE(reply(another, seconds(100) + millis(1)));
}

TEST_F(EchoResponderTest, RefusesDataThatDoesNotFit) {
  TestPacket out;
  out.buf.tailroom = 4;
  EXPECT_EQ(reply(out, seconds(1)), Drop::kTxNoBuffer);
}

class EchoResponder6Test : public testing::Test {
 protected:
  EchoResponder6Test() { routes_.add_address(0, kOwnIp6, 64); }
  InputKind receive(std::vector<uint8_t> frame) {
    frame_ = std::move(frame);
    return classify(received(frame_), kOwnMac, routes_, Origin::kWire, classified_);
  }
  RouteTable routes_;
  std::vector<uint8_t> frame_;
  Classified classified_;
  EchoResponder responder_;
};

TEST_F(EchoResponder6Test, TheReplyGoesBackWithTheSameData) {
  const std::vector<uint8_t> body = {'p', 'i', 'n', 'g', '!'};
  ASSERT_EQ(receive(ipv6_frame(wire::kIpProtocolIcmpv6, icmpv6_message(128, 0, 0x10002, body))),
            InputKind::kEchoRequest);
  TestPacket out;
  ASSERT_FALSE(
      responder_.write_reply(classified_.echo, {kOwnMac, kPeerMac}, 1, seconds(1), out.buf));
  const auto bytes = out.buf.bytes();
  Drop drop{};
  const auto ip = wire::parse_ipv6(bytes.subspan(14), drop);
  ASSERT_TRUE(ip);
  EXPECT_EQ(ip->source, kOwnIp6);
  EXPECT_EQ(ip->destination, kPeerIp6);
  EXPECT_EQ(ip->payload_bytes + 54u, bytes.size());
  const auto icmp = wire::parse_icmpv6({kOwnIp6, kPeerIp6}, bytes.subspan(54), drop);
  ASSERT_TRUE(icmp);
  EXPECT_EQ(icmp->type, wire::kIcmpv6EchoReply);
  EXPECT_EQ(icmp->echo_sequence, 2);
  ASSERT_EQ(icmp->body.size(), 5u);
  EXPECT_EQ(icmp->body[4], '!');
}

TEST_F(EchoResponder6Test, AProblemQuotesThePacketWithinTheSmallestMtu) {
  // RFC 4443 2.4 (c) and 3.4.
  ASSERT_EQ(receive(ipv6_frame(17, std::vector<uint8_t>(1400))), InputKind::kRefused);
  TestPacket out;
  ASSERT_FALSE(
      responder_.write_problem(classified_.refused, {kOwnMac, kPeerMac}, seconds(1), out.buf));
  const auto bytes = out.buf.bytes();
  EXPECT_EQ(bytes.size(), 14 + wire::kIpv6MtuBytesMin);
  Drop drop{};
  const auto icmp = wire::parse_icmpv6({kOwnIp6, kPeerIp6}, bytes.subspan(54), drop);
  ASSERT_TRUE(icmp);
  EXPECT_EQ(icmp->type, wire::kIcmpv6ParameterProblem);
  EXPECT_EQ(icmp->code, wire::kProblemNextHeader);
  EXPECT_EQ(wire::read_be32(bytes.data() + 58), 6u);
  EXPECT_TRUE(std::equal(icmp->body.begin(), icmp->body.end(), frame_.begin() + 14));
}

TEST_F(EchoResponder6Test, WithholdsErrorsBeyondTheRate) {
  // RFC 4443 2.4 (f).
  ASSERT_EQ(receive(ipv6_frame(17, std::vector<uint8_t>(8))), InputKind::kRefused);
  uint32_t sent = 0;
  for (int i = 0; i < 1000; ++i) {
    TestPacket out;
    sent += !responder_.write_problem(classified_.refused, {}, seconds(100), out.buf);
  }
  EXPECT_EQ(sent, kIcmpErrorBurst);
}

}  // namespace
}  // namespace lyre::ip
