#include <gtest/gtest.h>

#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

TEST(Handshake, ActiveOpenSendsSynWithItsOffers) {
  ConnectionConfig config;
  config.mss_bytes = 1460;
  Peer peer(config);
  const SegmentOut syn = peer.dial_only();
  EXPECT_EQ(syn.flags.bits, kS);
  EXPECT_EQ(syn.options.mss, 1460);
  EXPECT_TRUE(syn.options.sack_permitted);
  EXPECT_TRUE(syn.options.has_timestamps);
  EXPECT_EQ(syn.options.window_scale, 7);  // 4 MiB >> 7 fits 16 bits
  EXPECT_EQ(peer.state(), State::kSynSent);
  EXPECT_FALSE(peer.next().has_value());
}

TEST(Handshake, SynAckEstablishesAndIsAcknowledged) {  // RFC 9293 3.10.7.3
  Peer peer;
  peer.dial_only();
  SegmentIn answer = peer.make(kSA, 0, 0);
  answer.seq = peer.their_iss;
  answer.options = peer.syn_options;
  EXPECT_TRUE(peer.send(answer).became_established);
  EXPECT_EQ(peer.state(), State::kEstablished);
  const auto ack = peer.next();
  ASSERT_TRUE(ack.has_value());
  EXPECT_EQ(ack->flags.bits, kA);
  EXPECT_EQ(ack->seq, peer.us(0));
  EXPECT_EQ(ack->ack, peer.them(0));
}

TEST(Handshake, PassiveOpenAnswersOnlyWhatWasOffered) {
  ConnectionConfig config;
  Peer peer(config);
  peer.syn_options = {};
  SegmentIn syn = peer.make(kS, 0, 0);
  syn.seq = peer.their_iss;
  const FourTuple tuple{{IpAddress::v4(1), 1}, {IpAddress::v4(2), 2}};
  peer.conn = peer.engine.open_passive(tuple, config, syn, peer.now);
  const auto answer = peer.next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->flags.bits, kSA);
  EXPECT_EQ(answer->ack, peer.their_iss + 1);
  EXPECT_FALSE(answer->options.sack_permitted);
  EXPECT_FALSE(answer->options.has_timestamps);
  EXPECT_FALSE(answer->options.window_scale.has_value());
  EXPECT_EQ(peer.info().mss_bytes, 536u);  // RFC 9293 3.7.1: no option means 536
}

TEST(Handshake, RstAnswersBadAckInSynSent) {  // RFC 9293 3.10.7.3, first
  Peer peer;
  peer.dial_only();
  SegmentIn wrong = peer.make(kSA, 0, 77);
  EXPECT_EQ(peer.send(wrong).drop, Drop::kTcpBadAck);
  const auto reset = peer.next();
  ASSERT_TRUE(reset.has_value());
  EXPECT_EQ(reset->flags.bits, kR);
  EXPECT_EQ(reset->seq, peer.us(77));
  EXPECT_EQ(peer.state(), State::kSynSent);
}

TEST(Handshake, RstWithGoodAckRefuses) {
  Peer peer;
  peer.dial_only();
  const Effects& effects = peer.send(peer.make(kRA, 0, 0));
  EXPECT_TRUE(effects.is_over);
  EXPECT_EQ(effects.reason, EndReason::kRefused);
}

TEST(Handshake, RstWithoutAckIsIgnoredInSynSent) {
  Peer peer;
  peer.dial_only();
  EXPECT_EQ(peer.send(peer.make(kR, 0, 0)).drop, Drop::kTcpBadReset);
  EXPECT_EQ(peer.state(), State::kSynSent);
}

TEST(Handshake, SimultaneousOpenMeetsInTheMiddle) {  // RFC 9293 3.5 figure 7
  Peer peer;
  peer.dial_only();
  SegmentIn syn = peer.make(kS, 0, 0);
  syn.seq = peer.their_iss;
  syn.options = peer.syn_options;
  peer.send(syn);
  EXPECT_EQ(peer.state(), State::kSynReceived);
  const auto answer = peer.next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->flags.bits, kSA);
  EXPECT_EQ(answer->seq, peer.our_iss);
  SegmentIn syn_ack = syn;
  syn_ack.flags.bits = kSA;
  syn_ack.ack = peer.us(0);
  EXPECT_TRUE(peer.send(syn_ack).became_established);
  EXPECT_EQ(peer.state(), State::kEstablished);
  EXPECT_FALSE(peer.effects.is_over);
}

TEST(Handshake, LostSynIsSentAgainWithBackoff) {  // RFC 6298 2.1, 5.5
  Peer peer;
  peer.dial_only();
  const Nanos start = peer.now;
  for (const int64_t at_seconds : {1, 3, 7}) {
    peer.run_deadline();
    EXPECT_EQ(peer.now, start + seconds(at_seconds));
    const auto again = peer.next();
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->flags.bits, kS);
    EXPECT_EQ(again->seq, peer.our_iss);
    EXPECT_TRUE(again->is_retransmission);
  }
}

TEST(Handshake, NobodyAnswersEndsInConnectTimeout) {
  Peer peer;
  peer.dial_only();
  peer.wait(millis(peer.config.connect_timeout_ms));
  EXPECT_TRUE(peer.effects.is_over);
  EXPECT_EQ(peer.effects.reason, EndReason::kTimedOut);
}

TEST(Handshake, APeerThatNeverCompletesItIsForgottenSooner) {  // RFC 4987 3.3
  Peer peer;
  SegmentIn syn = peer.make(kS, 0, 0);
  syn.seq = peer.their_iss;
  peer.conn =
      peer.engine.open_passive({.local = {IpAddress::v4(1), 1}, .remote = {IpAddress::v4(2), 2}},
                               peer.config, syn, peer.now);
  peer.next();
  peer.wait(seconds(peer.config.syn_received_timeout_s) - millis(1));
  EXPECT_EQ(peer.state(), State::kSynReceived);
  peer.wait(millis(1));
  EXPECT_TRUE(peer.effects.is_over);
  EXPECT_EQ(peer.effects.reason, EndReason::kTimedOut);
}

TEST(Handshake, APathThatIsDownEndsOnlyAnActiveOpen) {
  Peer dialer;
  dialer.dial_only();
  EXPECT_EQ(dialer.engine.on_host_unreachable(dialer.conn, dialer.now).reason,
            EndReason::kUnreachable);
  // The peer of a passive open may be established already, and would wait for ever.
  Peer listener;
  SegmentIn syn = listener.make(kS, 0, 0);
  syn.seq = listener.their_iss;
  const FourTuple tuple{{IpAddress::v4(1), 1}, {IpAddress::v4(2), 2}};
  listener.conn = listener.engine.open_passive(tuple, listener.config, syn, listener.now);
  const auto answer = listener.next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_FALSE(listener.engine.on_host_unreachable(listener.conn, listener.now).is_over);
  const Effects effects = listener.engine.on_icmp_error(
      listener.conn, answer->seq, wire::IcmpVerdict::kUnreachable, 0, listener.now);
  EXPECT_FALSE(effects.is_over);
  listener.run_deadline();
  const auto again = listener.next();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->flags.bits, kSA);
}

TEST(Handshake, LostSynCostsTheInitialWindow) {  // RFC 5681 3.1
  Peer peer;
  peer.dial_with_lost_syn();
  EXPECT_EQ(peer.info().cwnd_bytes, 1000u);
}

TEST(Handshake, RepeatedSynMakesTheSynAckLeaveAgain) {
  Peer peer;
  SegmentIn syn = peer.make(kS, 0, 0);
  syn.seq = peer.their_iss;
  syn.options = peer.syn_options;
  peer.conn = peer.engine.open_passive({}, peer.config, syn, peer.now);
  const auto first = peer.next();
  peer.send(syn);
  const auto second = peer.next();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(second->flags.bits, kSA);
  EXPECT_EQ(second->seq, first->seq);
  EXPECT_TRUE(second->is_retransmission);
}

TEST(Handshake, BadAckInSynReceivedIsAnsweredWithRst) {  // RFC 9293 3.10.7.4, fifth
  Peer peer;
  SegmentIn syn = peer.make(kS, 0, 0);
  syn.seq = peer.their_iss;
  peer.conn = peer.engine.open_passive({}, peer.config, syn, peer.now);
  peer.our_iss = peer.next()->seq;
  EXPECT_EQ(peer.send(peer.make(kA, 0, 500)).drop, Drop::kTcpBadAck);
  const auto reset = peer.next();
  ASSERT_TRUE(reset.has_value());
  EXPECT_EQ(reset->flags.bits, kR);
  EXPECT_EQ(reset->seq, peer.us(500));
}

TEST(Handshake, SynAckDoesNotCompleteAPassiveOpen) {  // RFC 9293 3.10.7.4, first and fourth
  for (const uint32_t text_bytes : {0u, 100u}) {
    Peer peer;
    SegmentIn segment = peer.make(kS, 0, 0);
    segment.seq = peer.their_iss;
    segment.options = peer.syn_options;
    peer.conn = peer.engine.open_passive({}, peer.config, segment, peer.now);
    peer.our_iss = peer.next()->seq;
    segment.flags.bits = kSA;
    segment.ack = peer.us(0);
    segment.payload_bytes = text_bytes;
    const Effects& effects = peer.send(segment);
    EXPECT_FALSE(effects.became_established);
    EXPECT_FALSE(effects.payload_kept);
    EXPECT_EQ(peer.state(), State::kSynReceived);
    const auto answer = peer.next();
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->flags.bits, kA);
    EXPECT_EQ(answer->seq, peer.us(0));
    EXPECT_EQ(answer->ack, peer.them(0));
    EXPECT_TRUE(peer.ack(0).became_established);
  }
}

TEST(Handshake, TextBehindTheSynAckIsTakenWithTheAck) {
  Peer peer;
  SegmentIn syn = peer.make(kS, 0, 0);
  syn.seq = peer.their_iss;
  syn.options = peer.syn_options;
  peer.conn = peer.engine.open_passive({}, peer.config, syn, peer.now);
  peer.our_iss = peer.next()->seq;
  const Effects& effects = peer.text(0, 100);
  EXPECT_TRUE(effects.became_established);
  EXPECT_TRUE(effects.has_readable);
}

TEST(Handshake, FullEngineOpensNoMore) {
  Peer peer(Peer::plain_config(),
            {.connections_max = 1, .sent_records_max = 8, .received_runs_max = 8});
  peer.dial();
  EXPECT_EQ(peer.engine.open_active({}, peer.config, peer.now), kNoConn);
}

TEST(ResetFor, FollowsThePresenceOfAck) {  // RFC 9293 3.10.7.1
  SegmentIn segment;
  segment.seq = SeqNum(100);
  segment.payload_bytes = 10;
  segment.flags.bits = kS;
  auto reset = reset_for(segment);
  ASSERT_TRUE(reset.has_value());
  EXPECT_EQ(reset->flags.bits, kRA);
  EXPECT_EQ(reset->ack, SeqNum(111));
  segment.flags.bits = kA;
  segment.ack = SeqNum(7);
  reset = reset_for(segment);
  ASSERT_TRUE(reset.has_value());
  EXPECT_EQ(reset->flags.bits, kR);
  EXPECT_EQ(reset->seq, SeqNum(7));
  segment.flags.bits = kR;
  EXPECT_FALSE(reset_for(segment).has_value());
}

}  // namespace
}  // namespace lyre::tcp
