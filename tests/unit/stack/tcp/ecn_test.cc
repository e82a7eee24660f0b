#include <gtest/gtest.h>

#include "stack/tcp/congestion.h"
#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

using wire::Ecn;
using wire::TcpFlags;

constexpr uint8_t kE = TcpFlags::kEce;
constexpr uint8_t kC = TcpFlags::kCwr;

ConnectionConfig with_ecn(EcnMode mode) {
  ConnectionConfig config = Peer::plain_config();
  config.ecn = mode;
  return config;
}

ConnectionConfig with_dctcp() {
  ConnectionConfig config = Peer::plain_config();
  config.congestion = CongestionAlgorithm::kDctcp;
  return config;
}

bool has(const SegmentOut& segment, uint8_t flag) { return segment.flags.has(flag); }

/// Answers our SYN with `flags`, so that the connection is established.
void answer_syn(Peer& peer, uint8_t flags) {
  peer.now += millis(10);
  SegmentIn answer = peer.make(flags, 0, 0);
  answer.seq = peer.their_iss;
  answer.options = peer.syn_options;
  peer.send(answer);
  ASSERT_EQ(peer.state(), State::kEstablished);
  peer.all();
}

void dial_with_ecn(Peer& peer) {
  const SegmentOut syn = peer.dial_only();
  ASSERT_TRUE(has(syn, kE) && has(syn, kC));
  answer_syn(peer, kSA | kE);
  ASSERT_TRUE(peer.info().has_ecn);
}

constexpr FourTuple kTuple{.local = {.address = IpAddress::v4(0x0a000001), .port = 1000},
                           .remote = {.address = IpAddress::v4(0x0a000002), .port = 2000}};

SegmentIn syn_of(Peer& peer, uint8_t flags, Ecn field) {
  SegmentIn syn = peer.make(flags, 0, 0);
  syn.seq = peer.their_iss;
  syn.options = peer.syn_options;
  syn.ecn = field;
  return syn;
}

/// The peer connects with `flags`, its SYN in a packet with `field`. Returns our SYN,ACK.
SegmentOut accept_syn(Peer& peer, uint8_t flags, Ecn field = Ecn::kNotEct) {
  peer.conn = peer.engine.open_passive(kTuple, peer.config, syn_of(peer, flags, field), peer.now);
  const SegmentOut answer = *peer.next();
  peer.our_iss = answer.seq;
  return answer;
}

SegmentIn marked_text(Peer& peer, uint32_t seq_at, Ecn field, uint8_t more_flags = 0) {
  SegmentIn text = peer.make(static_cast<uint8_t>(kA | more_flags), seq_at, 0, 1000);
  text.ecn = field;
  return text;
}

TEST(EcnSetup, DialerAsksOnlyWhenTold) {  // RFC 3168 6.1.1
  EXPECT_FALSE(has(Peer(with_ecn(EcnMode::kAccept)).dial_only(), kE | kC));
  EXPECT_FALSE(has(Peer(with_ecn(EcnMode::kOff)).dial_only(), kE | kC));
  const SegmentOut syn = Peer(with_ecn(EcnMode::kOn)).dial_only();
  EXPECT_TRUE(has(syn, kE));
  EXPECT_TRUE(has(syn, kC));
  EXPECT_EQ(syn.ecn, Ecn::kNotEct);
}

TEST(EcnSetup, SynAckDecides) {  // RFC 3168 6.1.1
  for (const uint8_t flags : {kSA, static_cast<uint8_t>(kSA | kE | kC)}) {
    Peer refused(with_ecn(EcnMode::kOn));
    refused.dial_only();
    answer_syn(refused, flags);
    EXPECT_FALSE(refused.info().has_ecn);
    refused.app_send(1000);
    EXPECT_EQ(refused.next()->ecn, Ecn::kNotEct);
  }
  Peer agreed(with_ecn(EcnMode::kOn));
  dial_with_ecn(agreed);
  agreed.app_send(1000);
  EXPECT_EQ(agreed.next()->ecn, Ecn::kEct0);
}

TEST(EcnSetup, AnUnwantedEceInASynAckChangesNothing) {
  Peer peer(with_ecn(EcnMode::kAccept));
  peer.dial_only();
  answer_syn(peer, kSA | kE);
  EXPECT_FALSE(peer.info().has_ecn);
}

TEST(EcnSetup, LostSynIsFollowedByAPlainOne) {  // RFC 3168 6.1.1.1
  Peer peer(with_ecn(EcnMode::kOn));
  peer.dial_only();
  peer.run_deadline();
  const auto again = peer.next();
  ASSERT_TRUE(again.has_value());
  EXPECT_FALSE(has(*again, kE | kC));
  answer_syn(peer, kSA | kE);  // the answer to the first SYN, late
  EXPECT_FALSE(peer.info().has_ecn);
}

/// The answer to the first SYN came late, or the second one reached a peer that knew the first: it
/// sends ECT.
TEST(EcnSetup, MarksAreEchoedAfterAPlainSynButNotAskedFor) {  // RFC 3168 6.1.1
  for (const ConnectionConfig& config : {with_ecn(EcnMode::kOn), with_dctcp()}) {
    Peer peer(config);
    peer.dial_only();
    peer.run_deadline();
    ASSERT_FALSE(has(*peer.next(), kE | kC));
    answer_syn(peer, kSA | kE);
    EXPECT_NE(peer.info().congestion, CongestionAlgorithm::kDctcp);
    peer.send(marked_text(peer, 0, Ecn::kCe));
    const SegmentOut ack = peer.all().back();
    EXPECT_TRUE(has(ack, kE));
    EXPECT_EQ(ack.ecn, Ecn::kNotEct);
    peer.app_send(1000);
    EXPECT_EQ(peer.next()->ecn, Ecn::kNotEct);
    peer.sent_ = 1000;
    peer.send(peer.make(kA | kE, 1000, 1000));
    EXPECT_EQ(peer.info().ecn_reductions, 0u);
  }
}

TEST(EcnSetup, APlainAnswerAfterAPlainSynTurnsItOff) {  // RFC 3168 6.1.1
  Peer peer(with_ecn(EcnMode::kOn));
  peer.dial_only();
  peer.run_deadline();
  peer.next();
  answer_syn(peer, kSA);
  peer.send(marked_text(peer, 0, Ecn::kCe));
  EXPECT_FALSE(has(peer.all().back(), kE));
}

TEST(EcnSetup, ListenerAgreesUnlessOff) {  // RFC 3168 6.1.1
  for (const EcnMode mode : {EcnMode::kAccept, EcnMode::kOn}) {
    Peer peer(with_ecn(mode));
    const SegmentOut answer = accept_syn(peer, kS | kE | kC);
    EXPECT_TRUE(has(answer, kE));
    EXPECT_FALSE(has(answer, kC));
    EXPECT_EQ(answer.ecn, Ecn::kNotEct);
  }
  Peer off(with_ecn(EcnMode::kOff));
  EXPECT_FALSE(has(accept_syn(off, kS | kE | kC), kE));
  Peer half(with_ecn(EcnMode::kAccept));
  EXPECT_FALSE(has(accept_syn(half, kS | kE), kE));
  Peer marked(with_ecn(EcnMode::kAccept));
  EXPECT_FALSE(has(accept_syn(marked, kS | kE | kC, Ecn::kEct0), kE));
}

/// Whether a stateless SYN,ACK accepts ECN.
bool agrees_by_cookie(ConnectionConfig config, Ecn field) {
  config.timestamps = true;
  Peer peer(config);
  peer.syn_options.has_timestamps = true;
  const SegmentIn syn = syn_of(peer, kS | kE | kC, field);
  return has(peer.engine.answer_with_cookie(kTuple, peer.config, syn, peer.now), kE);
}

TEST(EcnSetup, CookieAgreesAsTheListenerItselfWould) {  // RFC 3168 6.1.1
  EXPECT_TRUE(agrees_by_cookie(with_ecn(EcnMode::kAccept), Ecn::kNotEct));
  EXPECT_FALSE(agrees_by_cookie(with_ecn(EcnMode::kAccept), Ecn::kEct0));
  EXPECT_FALSE(agrees_by_cookie(with_ecn(EcnMode::kOff), Ecn::kNotEct));
  ConnectionConfig dctcp = with_dctcp();
  dctcp.ecn = EcnMode::kOff;
  EXPECT_TRUE(agrees_by_cookie(dctcp, Ecn::kEct0));
}

TEST(EcnSetup, PlainSynAfterAnEcnSynTurnsItOff) {  // RFC 3168 6.1.1
  Peer peer(with_ecn(EcnMode::kAccept));
  ASSERT_TRUE(has(accept_syn(peer, kS | kE | kC), kE));
  peer.run_deadline();  // our SYN,ACK was lost: without ECN no ECN state is inherited from it
  peer.all();
  peer.send(syn_of(peer, kS, Ecn::kNotEct));
  const auto answer = peer.next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_FALSE(has(*answer, kE));
  EXPECT_FALSE(peer.info().has_ecn);
}

// Found by lyre-sim --scenario hosts_rough --seed 1: the timeout of the SYN,ACK set a pending CWR.
TEST(EcnSetup, PlainSynAfterALostAnswerLeavesNothingToTell) {  // RFC 3168 6.1.1
  Peer peer(with_ecn(EcnMode::kAccept));
  accept_syn(peer, kS | kE | kC);
  peer.run_deadline();
  peer.all();
  peer.send(syn_of(peer, kS, Ecn::kNotEct));  // which checks the invariants
  peer.all();
  peer.ack(0);
  EXPECT_FALSE(peer.info().has_ecn);
}

TEST(EcnSender, OnlyNewTextIsMarkedCapable) {  // RFC 3168 6.1.4 - 6.1.6
  Peer peer(with_ecn(EcnMode::kOn));
  dial_with_ecn(peer);
  peer.app_send(10000);
  for (const SegmentOut& segment : peer.all()) EXPECT_EQ(segment.ecn, Ecn::kEct0);
  peer.now += millis(10);
  peer.ack_with_sack(0, {{1000, 4000}});
  const auto again = peer.next();
  ASSERT_TRUE(again && again->is_retransmission);
  EXPECT_EQ(again->ecn, Ecn::kNotEct);
  peer.text(0, 1000);
  const auto pure_ack = peer.next();
  ASSERT_TRUE(pure_ack && pure_ack->payload_bytes == 0);
  EXPECT_EQ(pure_ack->ecn, Ecn::kNotEct);
}

TEST(EcnSender, WindowProbeIsNotMarkedCapable) {  // RFC 3168 6.1.6
  Peer peer(with_ecn(EcnMode::kOn));
  dial_with_ecn(peer);
  peer.window = 0;
  peer.ack(0);
  peer.app_send(1000);
  ASSERT_TRUE(peer.all().empty());
  peer.run_deadline();
  const auto probe = peer.next();
  ASSERT_TRUE(probe.has_value());
  EXPECT_EQ(probe->ecn, Ecn::kNotEct);
}

TEST(EcnSender, EchoInARecoveryMakesItsReductionFinal) {  // RFC 4015 3
  Peer peer(with_ecn(EcnMode::kOn));
  dial_with_ecn(peer);
  peer.app_send(8000);
  ASSERT_EQ(peer.all().size(), 8u);
  peer.now += millis(10);
  peer.ack_with_sack(0, {{1000, 4000}});
  ASSERT_TRUE(peer.next()->is_retransmission);
  const uint32_t ssthresh = peer.info().ssthresh_bytes;
  peer.now += millis(5);
  peer.send(peer.make(kA | kE, 0, 8000));
  peer.ack_with_sack(8000, {{0, 1000}});  // the retransmission was needless
  EXPECT_EQ(peer.info().undone_reductions, 0u);
  EXPECT_EQ(peer.info().ssthresh_bytes, ssthresh);
}

TEST(EcnSender, EchoReducesOnceAWindowAndIsAnsweredWithCwr) {  // RFC 3168 6.1.2
  Peer peer(with_ecn(EcnMode::kOn));
  dial_with_ecn(peer);
  peer.app_send(40000);
  ASSERT_EQ(peer.all().size(), 10u);
  peer.now += millis(10);
  peer.send(peer.make(kA | kE, 0, 1000));
  EXPECT_EQ(peer.info().ssthresh_bytes, 7000u);
  EXPECT_EQ(peer.info().ecn_reductions, 1u);
  uint32_t cwr_count = 0;
  for (uint32_t acked = 2000; acked <= 10000; acked += 1000) {
    peer.send(peer.make(kA | kE, 0, acked));
    for (const SegmentOut& segment : peer.all()) {
      EXPECT_FALSE(segment.is_retransmission);
      cwr_count += has(segment, kC) ? 1 : 0;
    }
  }
  EXPECT_EQ(cwr_count, 1u);
  EXPECT_EQ(peer.info().ecn_reductions, 1u);
  peer.send(peer.make(kA, 0, 11000));  // the CWR has arrived
  EXPECT_EQ(peer.info().cwnd_bytes, 7000u);
  peer.all();
  peer.send(peer.make(kA | kE, 0, 12000));  // a new mark
  EXPECT_EQ(peer.info().ecn_reductions, 2u);
}

TEST(EcnSender, LossInTheSameWindowReducesNoFurther) {  // RFC 3168 6.1.2
  Peer peer(with_ecn(EcnMode::kOn));
  dial_with_ecn(peer);
  peer.app_send(40000);
  peer.all();
  peer.now += millis(10);
  peer.send(peer.make(kA | kE, 0, 1000));
  const uint32_t ssthresh = peer.info().ssthresh_bytes;
  peer.all();
  peer.ack_with_sack(1000, {{2000, 5000}});
  const auto again = peer.next();
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->is_retransmission);
  EXPECT_EQ(peer.info().ssthresh_bytes, ssthresh);
}

TEST(EcnSender, EchoWithoutNegotiationIsIgnored) {
  Peer peer;
  peer.dial();
  peer.app_send(10000);
  peer.all();
  const uint32_t cwnd = peer.info().cwnd_bytes;
  peer.send(peer.make(kA | kE, 0, 1000));
  EXPECT_GE(peer.info().cwnd_bytes, cwnd);
}

TEST(EcnReceiver, EchoesUntilCwr) {  // RFC 3168 6.1.3
  Peer peer(with_ecn(EcnMode::kOn));
  dial_with_ecn(peer);
  peer.send(marked_text(peer, 0, Ecn::kCe));
  EXPECT_TRUE(has(*peer.next(), kE));
  peer.send(marked_text(peer, 1000, Ecn::kEct0));
  EXPECT_TRUE(has(*peer.next(), kE));
  peer.app_send(1000);
  EXPECT_TRUE(has(*peer.next(), kE));  // in data as well
  peer.send(marked_text(peer, 2000, Ecn::kEct0, kC));
  const auto answer = peer.next();  // at once: the sender's window may be one segment
  ASSERT_TRUE(answer.has_value());
  EXPECT_FALSE(has(*answer, kE));
  peer.send(marked_text(peer, 3000, Ecn::kCe, kC));
  EXPECT_TRUE(has(*peer.next(), kE));  // this segment was marked itself
  EXPECT_EQ(peer.info().ce_segments, 2u);
}

TEST(EcnReceiver, RepeatedTextIsNotLookedAt) {  // RFC 3168 6.1.5
  Peer peer(with_ecn(EcnMode::kOn));
  dial_with_ecn(peer);
  peer.text(0, 1000);
  peer.all();
  peer.send(marked_text(peer, 0, Ecn::kCe));
  EXPECT_FALSE(has(*peer.next(), kE));
}

TEST(Dctcp, AsksForEcnAndMarksAllThatFollowsTheHandshake) {  // RFC 8257 3.5
  Peer peer(with_dctcp());
  dial_with_ecn(peer);
  EXPECT_EQ(peer.info().congestion, CongestionAlgorithm::kDctcp);
  peer.text(0, 1000);
  EXPECT_EQ(peer.next()->ecn, Ecn::kEct0);
}

TEST(Dctcp, PeerWithoutEcnGetsNewReno) {  // RFC 8257: DCTCP rests on ECN
  Peer peer(with_dctcp());
  peer.dial_only();
  answer_syn(peer, kSA);
  EXPECT_EQ(peer.info().congestion, CongestionAlgorithm::kNewReno);
  EXPECT_FALSE(peer.info().has_ecn);
}

TEST(Dctcp, EachRunOfMarksIsAcknowledgedByItself) {  // RFC 8257 3.2
  Peer peer(with_dctcp());
  dial_with_ecn(peer);
  for (uint32_t at = 0; at < 20000; at += 1000) {  // past the quick ACKs of the start
    peer.text(at, 1000);
    peer.all();
  }
  peer.send(marked_text(peer, 20000, Ecn::kEct0));
  peer.send(marked_text(peer, 21000, Ecn::kCe));
  peer.send(marked_text(peer, 22000, Ecn::kCe));
  peer.send(marked_text(peer, 23000, Ecn::kEct0));
  const auto acks = peer.all();
  ASSERT_EQ(acks.size(), 3u);
  EXPECT_EQ(peer.ack_at(acks[0].ack), 21000u);
  EXPECT_FALSE(has(acks[0], kE));
  EXPECT_EQ(peer.ack_at(acks[1].ack), 23000u);
  EXPECT_TRUE(has(acks[1], kE));
  EXPECT_EQ(peer.ack_at(acks[2].ack), 24000u);
  EXPECT_FALSE(has(acks[2], kE));
}

TEST(Dctcp, ManyChangesInOneBurstKeepTheLastStateRight) {
  Peer peer(with_dctcp());
  dial_with_ecn(peer);
  uint32_t at = 0;
  for (int i = 0; i < 15; ++i, at += 1000) {
    peer.send(marked_text(peer, at, i % 2 == 0 ? Ecn::kCe : Ecn::kEct0));
  }
  const auto acks = peer.all();
  ASSERT_GE(acks.size(), 2u);
  for (size_t i = 1; i < acks.size(); ++i) {
    EXPECT_TRUE(acks[i].ack.after(acks[i - 1].ack));
    EXPECT_NE(has(acks[i], kE), has(acks[i - 1], kE));
  }
  EXPECT_EQ(peer.ack_at(acks.back().ack), at);
  EXPECT_TRUE(has(acks.back(), kE));
}

TEST(Dctcp, WindowShrinksByTheShareOfMarks) {  // RFC 8257 3.3
  Congestion cc;
  congestion_start(cc, CongestionAlgorithm::kDctcp, 1000);
  cc.cwnd_bytes = 100'000;
  congestion_on_ecn(cc, 100'000);
  EXPECT_EQ(cc.ssthresh_bytes, 50'000u);  // RFC 8257 4.2: alpha starts at 1
  SeqNum una{1};
  for (int window = 0; window < 200; ++window) {  // a tenth of the bytes marked
    for (int i = 0; i < 10; ++i) {
      una += 10'000;
      congestion_note_ecn(
          cc, {.acked_bytes = 10'000, .has_echo = i == 0, .ack = una, .nxt = una + 100'000});
    }
  }
  EXPECT_NEAR(cc.dctcp()->alpha, 0.1, 0.01);
  congestion_on_ecn(cc, 100'000);
  EXPECT_NEAR(cc.ssthresh_bytes, 95'000, 500);
  congestion_on_loss(cc, 100'000);  // RFC 8257 3.4
  EXPECT_EQ(cc.ssthresh_bytes, 50'000u);
}

}  // namespace
}  // namespace lyre::tcp
