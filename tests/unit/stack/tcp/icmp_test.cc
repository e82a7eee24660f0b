#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

TEST(Icmp, TooBigCutsSegmentsAndSendsAgain) {  // RFC 1191 6.4
  Peer peer;
  peer.dial();
  peer.app_send(2000);
  peer.all();
  const uint32_t segments = peer.info().cwnd_bytes / peer.info().mss_bytes;
  peer.effects =
      peer.engine.on_icmp_error(peer.conn, peer.us(0), wire::IcmpVerdict::kSoft, 640, peer.now);
  EXPECT_TRUE(peer.effects.wants_transmit);
  uint32_t bytes = 0;
  for (const SegmentOut& segment : peer.all()) {
    EXPECT_LE(segment.payload_bytes, 600u);
    bytes += segment.payload_bytes;
  }
  EXPECT_EQ(bytes, 2000u);
  EXPECT_EQ(peer.info().cwnd_bytes, segments * 600);
}

TEST(Icmp, ANewConnectionStartsWithTheKnownPathMtu) {  // RFC 1191 6.3
  for (const bool is_dialed : {true, false}) {
    Peer peer;
    peer.open_with_path_mtu(640, is_dialed);
    peer.app_send(3000);
    for (const SegmentOut& segment : peer.all()) EXPECT_LE(segment.payload_bytes, 600u);
    peer.now += seconds(601);
    peer.ack(3000);  // after ten minutes larger ones are tried
    peer.app_send(3000);
    EXPECT_EQ(peer.next()->payload_bytes, 1000u);
  }
}

/// An earlier connection found a black hole (path_mtu.h): this one tests it when that is old.
TEST(Icmp, ANewConnectionLeavesAKnownBlackHole) {  // RFC 8899 5.3
  for (const bool is_dialed : {true, false}) {
    Peer peer;
    peer.open_with_path_mtu(640, is_dialed);
    peer.app_send(5 * 600);
    for (const SegmentOut& segment : peer.all()) EXPECT_EQ(segment.payload_bytes, 600u);
    ASSERT_TRUE(peer.engine.send_side(peer.conn).black_hole.has_value());
    EXPECT_EQ(peer.engine.send_side(peer.conn).black_hole->mtu_bytes, 640u);
    peer.ack(5 * 600);
    peer.wait(seconds(601));
    peer.app_send(3000);
    const std::vector<SegmentOut> sent = peer.all();
    ASSERT_GT(sent.size(), 1u);
    EXPECT_EQ(sent[0].payload_bytes, 1000u);
    EXPECT_EQ(sent[1].payload_bytes, 600u);
    EXPECT_EQ(peer.info().mss_bytes, 600u);
    peer.ack(5 * 600 + 1000);
    EXPECT_EQ(peer.info().mss_bytes, 1000u);
    EXPECT_FALSE(peer.engine.send_side(peer.conn).black_hole.has_value());
  }
}

// It had 536 bytes for ten minutes, while the connection that told it had found more.
TEST(Icmp, ANewConnectionSearchesOnFromWhatEveryPathCarries) {
  Peer peer;
  peer.open_with_path_mtu(576, /*is_dialed=*/true);
  peer.app_send(1000 + 2 * 536);
  const std::vector<SegmentOut> sent = peer.all();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].payload_bytes, 1000u);
  EXPECT_EQ(sent[1].payload_bytes, 536u);
  peer.ack(1000);
  EXPECT_EQ(peer.info().mss_bytes, 1000u);
}

/// The peer's window lets out as much as was acknowledged, which is less than a large segment.
TEST(Icmp, ABusyConnectionMakesRoomForTheLargeSegment) {
  constexpr uint32_t kWindowSegments = 4;
  Peer peer;
  peer.open_with_path_mtu(640, /*is_dialed=*/true);
  peer.window = kWindowSegments * 600;
  peer.ack(0);
  peer.wait(seconds(600) - millis(10));
  peer.app_send(20 * 600);
  peer.all();
  peer.wait(millis(20));
  std::vector<SegmentOut> sent;
  for (uint32_t acked = 1; acked <= kWindowSegments && sent.empty(); ++acked) {
    peer.ack(acked * 600);
    sent = peer.all();
  }
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent[0].payload_bytes, 1000u);
}

/// Options could make a large segment's payload as small as the other one: none tests the path.
TEST(Icmp, ASizeThatIsBarelySmallerEndsAfterTenMinutes) {  // RFC 1191 6.3
  ConnectionConfig config = Peer::plain_config();
  config.mss_bytes = 536 + 40;
  Peer peer(config);
  peer.open_with_path_mtu(576, /*is_dialed=*/true);
  EXPECT_EQ(peer.info().mss_bytes, 536u);
  peer.wait(seconds(601));
  peer.app_send(500);
  peer.all();
  peer.ack(500);
  EXPECT_EQ(peer.info().mss_bytes, 576u);
}

TEST(Icmp, ASackOfTheLargeSegmentEndsAKnownBlackHole) {
  Peer peer;
  peer.open_with_path_mtu(640, /*is_dialed=*/true);
  peer.wait(seconds(601));
  peer.app_send(500);
  EXPECT_EQ(peer.next()->payload_bytes, 500u);
  peer.app_send(2000);
  EXPECT_EQ(peer.next()->payload_bytes, 1000u);
  EXPECT_EQ(peer.next()->payload_bytes, 600u);
  peer.ack_with_sack(0, {{1500, 2100}});
  EXPECT_EQ(peer.info().mss_bytes, 600u);
  peer.ack_with_sack(0, {{500, 2100}});
  EXPECT_EQ(peer.info().mss_bytes, 1000u);
}

/// A router has told the path's MTU, and larger segments are due again. `lowest` and `highest`: of
/// what is in flight then.
class OldReport : public testing::Test {
 protected:
  static constexpr uint32_t kBefore = 20'000;
  static constexpr uint32_t kSegment = 1360;

  OldReport() : peer(ethernet()) {
    peer.syn_options.mss = 1460;
    peer.dial();
    peer.app_send(kBefore);
    peer.all();
    hear_too_big(peer.us(0));
    for (uint32_t acked = 0; acked < kBefore; acked = std::min(acked + 4 * kSegment, kBefore)) {
      peer.all();
      peer.now += millis(10);
      peer.ack(acked);
    }
    peer.ack(kBefore);
    peer.now += seconds(601);
    peer.app_send(50 * kSegment);
    flight = peer.all();
  }
  static ConnectionConfig ethernet() {
    ConnectionConfig config = Peer::plain_config();
    config.mss_bytes = 1460;
    return config;
  }
  void hear_too_big(SeqNum quoted, uint32_t mtu_bytes = 1400) {
    peer.effects =
        peer.engine.on_icmp_error(peer.conn, quoted, wire::IcmpVerdict::kSoft, mtu_bytes, peer.now);
  }

  Peer peer;
  std::vector<SegmentOut> flight;
};

TEST_F(OldReport, IsTestedWithOneSegment) {  // RFC 4821 7.5, RFC 8899 5.3
  ASSERT_GT(flight.size(), 4u);
  EXPECT_EQ(flight[0].payload_bytes, 1410u);
  for (size_t i = 1; i < flight.size(); ++i) EXPECT_EQ(flight[i].payload_bytes, kSegment);
  peer.ack(kBefore + 1410);
  EXPECT_EQ(peer.info().mss_bytes, 1410u);
  EXPECT_EQ(peer.next()->payload_bytes, 1460u) << "the next larger size";
}

// All that was in flight was sent again.
TEST_F(OldReport, OnlyTheTestIsSentAgainWhereItIsStillTrue) {  // RFC 4821 7.6.2
  const uint32_t cwnd = peer.info().cwnd_bytes;
  peer.now += millis(1);
  hear_too_big(flight[0].seq);
  EXPECT_TRUE(peer.effects.wants_transmit);
  uint32_t sent_again = 0;
  for (const SegmentOut& segment : peer.all()) {
    EXPECT_LE(segment.payload_bytes, kSegment);
    if (segment.is_retransmission) sent_again += segment.payload_bytes;
  }
  EXPECT_EQ(sent_again, 1410u);
  EXPECT_EQ(peer.info().cwnd_bytes, cwnd);
  EXPECT_EQ(peer.info().mss_bytes, kSegment);
  hear_too_big(flight[0].seq);
  EXPECT_EQ(peer.effects.drop, Drop::kIcmpIgnored) << "the test is over";
}

TEST_F(OldReport, AnErrorAboutAnotherSegmentSaysNothingNew) {
  hear_too_big(flight[1].seq);
  EXPECT_EQ(peer.effects.drop, Drop::kIcmpIgnored);
  hear_too_big(flight[0].seq, 1450);
  EXPECT_EQ(peer.effects.drop, Drop::kIcmpIgnored) << "the test fits that";
}

TEST_F(OldReport, ASmallerPathMtuCountsAsBefore) {  // RFC 1191 6.4
  hear_too_big(flight[0].seq, 1300);
  EXPECT_EQ(peer.info().mss_bytes, 1260u);
  for (const SegmentOut& segment : peer.all()) EXPECT_LE(segment.payload_bytes, 1260u);
}

TEST(Icmp, AKnownPathMtuThatIsLargerThanThePeersMssChangesNothing) {
  Peer peer;
  peer.open_with_path_mtu(1400, /*is_dialed=*/true);
  peer.app_send(3000);
  EXPECT_EQ(peer.next()->payload_bytes, 1000u);
}

TEST(Icmp, WhatChangesNothingIsCounted) {
  Peer peer;
  peer.dial();
  peer.app_send(1000);
  peer.all();
  for (const uint32_t mtu_bytes :
       {0u, 60u, 575u, 1500u}) {  // soft, less than every path carries, nothing new
    peer.effects = peer.engine.on_icmp_error(peer.conn, peer.us(0), wire::IcmpVerdict::kSoft,
                                             mtu_bytes, peer.now);
    EXPECT_EQ(peer.effects.drop, Drop::kIcmpIgnored) << mtu_bytes;
  }
}

TEST(Icmp, WrongQuoteIsIgnored) {  // RFC 5927 4.1
  Peer peer;
  peer.dial();
  peer.app_send(1000);
  peer.all();
  peer.effects =
      peer.engine.on_icmp_error(peer.conn, peer.us(5000), wire::IcmpVerdict::kRefused, 0, peer.now);
  EXPECT_EQ(peer.effects.drop, Drop::kIcmpBadQuote);
}

/// A soft error about the first byte that `peer` has under way, its SYN or text.
void hear_soft_error(Peer& peer, SeqNum quoted) {
  peer.effects =
      peer.engine.on_icmp_error(peer.conn, quoted, wire::IcmpVerdict::kSoft, 0, peer.now);
  EXPECT_FALSE(peer.effects.is_over);
}

TEST(Icmp, TimeoutEndsWithWhatWasHeard) {  // RFC 9293 3.9.2.2 (SHLD-25), RFC 1122 4.2.3.9
  Peer peer;
  peer.dial();
  peer.app_send(1000);
  peer.all();
  hear_soft_error(peer, peer.us(0));
  peer.wait(millis(peer.config.user_timeout_ms));
  EXPECT_EQ(peer.effects.reason, EndReason::kUnreachable);
}

TEST(Icmp, ConnectTimeoutEndsWithWhatWasHeard) {  // RFC 9293 3.9.2.2 (SHLD-25)
  Peer peer;
  peer.dial_only();
  hear_soft_error(peer, peer.our_iss);
  peer.wait(millis(peer.config.connect_timeout_ms));
  EXPECT_EQ(peer.effects.reason, EndReason::kUnreachable);
}

TEST(Icmp, ASignOfLifeEndsWhatWasHeard) {
  Peer peer;
  peer.dial();
  peer.app_send(2000);
  peer.all();
  hear_soft_error(peer, peer.us(0));
  peer.ack(1000);
  peer.wait(millis(peer.config.user_timeout_ms));
  EXPECT_EQ(peer.effects.reason, EndReason::kTimedOut);
}

TEST(Icmp, TheAnswerToASynEndsWhatWasHeard) {
  Peer peer;
  peer.dial_only();
  hear_soft_error(peer, peer.our_iss);
  SegmentIn answer = peer.make(kSA, 0, 0);
  answer.seq = peer.their_iss;
  answer.options = peer.syn_options;
  peer.send(answer);
  peer.app_send(1000);
  peer.all();
  peer.wait(millis(peer.config.user_timeout_ms));
  EXPECT_EQ(peer.effects.reason, EndReason::kTimedOut);
}

TEST(Icmp, HardErrorEndsOnlyWhatIsNotEstablished) {  // RFC 5927 5.2
  Peer peer;
  peer.dial_only();
  peer.effects =
      peer.engine.on_icmp_error(peer.conn, peer.our_iss, wire::IcmpVerdict::kSoft, 0, peer.now);
  EXPECT_FALSE(peer.effects.is_over);
  peer.effects = peer.engine.on_icmp_error(peer.conn, peer.our_iss, wire::IcmpVerdict::kUnreachable,
                                           0, peer.now);
  EXPECT_EQ(peer.effects.reason, EndReason::kUnreachable);

  Peer refused;
  refused.dial_only();
  refused.effects = refused.engine.on_icmp_error(refused.conn, refused.our_iss,
                                                 wire::IcmpVerdict::kRefused, 0, refused.now);
  EXPECT_EQ(refused.effects.reason, EndReason::kRefused);

  Peer established;
  established.dial();
  established.app_send(1000);
  established.all();
  established.effects = established.engine.on_icmp_error(
      established.conn, established.us(0), wire::IcmpVerdict::kRefused, 0, established.now);
  EXPECT_FALSE(established.effects.is_over);
}

}  // namespace
}  // namespace lyre::tcp
