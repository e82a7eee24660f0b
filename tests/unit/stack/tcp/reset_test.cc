#include <gtest/gtest.h>

#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

TEST(Reset, ExactSequenceEnds) {  // RFC 5961 3.2
  Peer peer;
  peer.dial();
  const Effects& effects = peer.send(peer.make(kR, 0, 0));
  EXPECT_TRUE(effects.is_over);
  EXPECT_EQ(effects.reason, EndReason::kReset);
}

TEST(Reset, InsideTheWindowIsChallenged) {  // RFC 5961 3.2
  Peer peer;
  peer.dial();
  EXPECT_EQ(peer.send(peer.make(kR, 1, 0)).drop, Drop::kTcpBadReset);
  EXPECT_EQ(peer.state(), State::kEstablished);
  const auto challenge = peer.next();
  ASSERT_TRUE(challenge.has_value());
  EXPECT_EQ(challenge->flags.bits, kA);
  EXPECT_EQ(challenge->ack, peer.them(0));
}

TEST(Reset, OutsideTheWindowIsSilentlyDropped) {
  Peer peer;
  peer.dial();
  EXPECT_EQ(peer.send(peer.make(kR, 100000, 0)).drop, Drop::kTcpOutOfWindow);
  EXPECT_FALSE(peer.next().has_value());
}

TEST(Reset, AtTheRightEdgeIsOutside) {  // RFC 5961 3.2: RCV.NXT <= SEG.SEQ < RCV.NXT+RCV.WND
  Peer peer;
  peer.dial();
  const uint32_t window = peer.info().receive_window_bytes;
  EXPECT_EQ(peer.send(peer.make(kR, window, 0)).drop, Drop::kTcpOutOfWindow);
  EXPECT_FALSE(peer.next().has_value());
  EXPECT_EQ(peer.send(peer.make(kR, window - 1, 0)).drop, Drop::kTcpBadReset);
  EXPECT_TRUE(peer.next().has_value());
}

/// A peer that has filled the window, part of which was lost, resets with exactly this number.
TEST(Reset, AtTheRightEdgeBehindAGapIsChallenged) {
  Peer peer;
  peer.dial();
  const uint32_t window = peer.info().receive_window_bytes;
  peer.text(1000, 1000);
  peer.all();
  EXPECT_EQ(peer.send(peer.make(kR, window, 0)).drop, Drop::kTcpBadReset);
  const auto challenge = peer.next();
  ASSERT_TRUE(challenge.has_value());
  EXPECT_EQ(challenge->ack, peer.them(0));
}

TEST(Reset, SynInsideTheWindowIsChallenged) {  // RFC 5961 4.2
  Peer peer;
  peer.dial();
  EXPECT_EQ(peer.send(peer.make(kS, 10, 0)).drop, Drop::kTcpBadSyn);
  EXPECT_EQ(peer.next()->flags.bits, kA);
  EXPECT_EQ(peer.state(), State::kEstablished);
}

TEST(Reset, AckOfTheFutureIsChallenged) {  // RFC 5961 5.2
  Peer peer;
  peer.dial();
  EXPECT_EQ(peer.ack(1).drop, Drop::kTcpBadAck);
  EXPECT_TRUE(peer.next().has_value());
}

TEST(Reset, AckOfTheFarPastIsChallengedAndItsTextRefused) {  // RFC 5961 5.2
  Peer peer;
  peer.dial();
  SegmentIn segment = peer.make(kA, 0, 0, 10);
  segment.ack = peer.us(0) - 100000;
  EXPECT_EQ(peer.send(segment).drop, Drop::kTcpBadAck);
  EXPECT_FALSE(peer.effects.payload_kept);
}

TEST(Reset, SegmentWithoutAckIsDropped) {
  Peer peer;
  peer.dial();
  EXPECT_EQ(peer.send(peer.make(0, 0, 0, 10)).drop, Drop::kTcpBadAck);
}

TEST(Reset, ChallengesAreLimited) {  // RFC 5961 7
  Peer peer;
  peer.dial();
  int answered = 0;
  for (int i = 0; i < 100; ++i) {
    peer.send(peer.make(kR, 1, 0));
    if (peer.next()) ++answered;
  }
  EXPECT_GE(answered, 5);
  EXPECT_LE(answered, 15);
  peer.wait(seconds(1));
  peer.send(peer.make(kR, 1, 0));
  EXPECT_TRUE(peer.next().has_value());
}

/// The peer's window probe or keep-alive.
SegmentIn probe_of(const Peer& peer) {
  SegmentIn probe = peer.make(kA, 0, 0);
  probe.seq = peer.them(0) - 1;
  return probe;
}

/// Without an answer the prober gives up a connection that works.
TEST(Reset, ProbesAreAnsweredWhenStrangersUsedUpTheChallenges) {  // RFC 9293 3.8.4, 3.8.6.1
  Peer peer;
  peer.dial();
  for (int i = 0; i < 40; ++i) {
    peer.send(peer.make(kA, 1u << 30, 0));
    peer.all();
  }
  peer.send(probe_of(peer));
  EXPECT_EQ(peer.all().size(), 1u);
}

/// Or two ends whose numbers differ by one would answer each other for ever.
TEST(Reset, AnswersToProbesAreLimited) {
  Peer peer;
  peer.dial();
  size_t answered = 0;
  for (int i = 0; i < 100; ++i) {
    peer.send(probe_of(peer));
    answered += peer.all().size();
  }
  EXPECT_EQ(answered, 8u);
  peer.wait(seconds(1));
  peer.send(probe_of(peer));
  EXPECT_EQ(peer.all().size(), 1u);
}

TEST(Reset, InSynReceivedEndsIt) {
  Peer peer;
  SegmentIn syn = peer.make(kS, 0, 0);
  syn.seq = peer.their_iss;
  peer.conn = peer.engine.open_passive({}, peer.config, syn, peer.now);
  peer.our_iss = peer.next()->seq;
  EXPECT_TRUE(peer.send(peer.make(kR, 0, 0)).is_over);
}

TEST(Reset, NothingLeavesAfterwards) {
  Peer peer;
  peer.dial();
  peer.app_send(5000);
  peer.send(peer.make(kR, 0, 0));
  EXPECT_FALSE(peer.next().has_value());
  EXPECT_EQ(peer.engine.next_deadline(peer.conn), kNever);
}

}  // namespace
}  // namespace lyre::tcp
