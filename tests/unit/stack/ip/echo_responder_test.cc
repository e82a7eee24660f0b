#include "stack/ip/echo_responder.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lyre::ip
