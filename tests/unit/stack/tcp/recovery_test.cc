#include <gtest/gtest.h>

#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

ConnectionConfig newreno_without_sack() {
  ConnectionConfig config = Peer::plain_config();
  config.sack = false;
  config.congestion = CongestionAlgorithm::kNewReno;
  return config;
}

void send_ten(Peer& peer) {
  peer.dial();
  peer.app_send(20000);
  ASSERT_EQ(peer.all().size(), 10u);  // RFC 6928: the initial window
  peer.now += millis(10);
}

TEST(Rack, ThreeSackedSegmentsAboveMakeTheFrontLost) {  // RFC 8985 6.2, RFC 6675
  Peer peer;
  send_ten(peer);
  peer.ack_with_sack(0, {{1000, 2000}});
  for (const SegmentOut& segment : peer.all()) EXPECT_FALSE(segment.is_retransmission);
  peer.ack_with_sack(0, {{1000, 3000}});
  for (const SegmentOut& segment : peer.all()) EXPECT_FALSE(segment.is_retransmission);
  peer.ack_with_sack(0, {{1000, 4000}});
  const auto first = peer.next();
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(first->is_retransmission);
  EXPECT_EQ(first->seq, peer.us(0));
  EXPECT_EQ(peer.info().fast_recoveries, 1u);
}

TEST(Rack, ReorderingTimerFindsALossThatFewSacksTell) {  // RFC 8985 6.2 step 5
  Peer peer;
  send_ten(peer);
  peer.ack_with_sack(0, {{1000, 2000}});
  peer.all();
  const Nanos before = peer.now;
  peer.run_deadline();
  EXPECT_LE(peer.now - before, millis(10));  // a quarter of the least round trip
  const auto again = peer.next();
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->is_retransmission);
  EXPECT_EQ(again->seq, peer.us(0));
}

/// RFC 2018 4: the latest block is the first, and need not be the highest or the lowest.
TEST(Rack, TwoHolesOfOneAckAreNoReordering) {  // RFC 8985 6.2 step 3
  Peer peer;
  send_ten(peer);
  peer.ack_with_sack(0, {{6000, 10000}, {1000, 5000}});
  const auto sent = peer.all();
  ASSERT_GE(sent.size(), 2u);
  EXPECT_EQ(sent[0].seq, peer.us(0));
  EXPECT_TRUE(sent[0].is_retransmission);
  EXPECT_EQ(sent[1].seq, peer.us(5000));
  EXPECT_TRUE(sent[1].is_retransmission);
}

/// The time from the SACK after a new hole at `hole` to the expiry of the reordering timer.
Nanos patience_with_hole(Peer& peer, uint32_t hole) {
  peer.ack_with_sack(hole, {{hole + 1000, hole + 2000}});
  peer.all();
  const Nanos before = peer.now;
  peer.run_deadline();
  return peer.now - before;
}

/// The RTT is 10 ms, so the reordering window is 2.5 ms for each step of the multiplier.
TEST(Rack, EachRoundWithADuplicateReportWidensTheWindow) {  // RFC 8985 6.2 step 4
  Peer peer;
  send_ten(peer);
  const Nanos narrow = patience_with_hole(peer, 0);
  peer.now += millis(10);
  // The hole's first transmission was only late: the second arrives as well, and is reported.
  peer.ack_with_sack(2000, {{0, 1000}});
  peer.all();
  peer.now += millis(10);
  const Nanos wide = patience_with_hole(peer, 4000);
  EXPECT_GT(wide, narrow + millis(1));
}

TEST(Rack, DuplicateReportsThatCannotBeWidenNothing) {  // RFC 2883 4
  const std::vector<std::pair<uint32_t, uint32_t>> lies = {{1000, 0}, {0x80000000u, 0x80000100u}};
  for (const auto& lie : lies) {
    Peer peer;
    send_ten(peer);
    const Nanos narrow = patience_with_hole(peer, 0);
    peer.now += millis(10);
    peer.ack_with_sack(2000, {lie});
    peer.all();
    peer.now += millis(10);
    EXPECT_LE(patience_with_hole(peer, 4000), narrow + micros(1));
  }
}

TEST(Rack, LostRetransmissionIsFoundByLaterOnes) {
  Peer peer;
  send_ten(peer);
  peer.ack_with_sack(0, {{2000, 6000}});  // 0 - 2000 lost
  auto sent = peer.all();
  ASSERT_GE(sent.size(), 2u);
  EXPECT_EQ(sent[0].seq, peer.us(0));
  EXPECT_EQ(sent[1].seq, peer.us(1000));
  peer.now += millis(10);
  peer.ack_with_sack(0, {{1000, 8000}});  // the second arrived, the first retransmission did not
  sent = peer.all();
  ASSERT_GE(sent.size(), 1u);
  EXPECT_EQ(sent[0].seq, peer.us(0));
  EXPECT_TRUE(sent[0].is_retransmission);
  EXPECT_EQ(peer.info().timeouts, 0u);
}

TEST(Recovery, WindowComesDownToSsthreshAndStaysThere) {  // RFC 6937
  Peer peer;
  send_ten(peer);
  peer.ack_with_sack(0, {{1000, 4000}});
  peer.all();
  const uint32_t ssthresh = peer.info().ssthresh_bytes;
  EXPECT_EQ(ssthresh, 7000u);  // RFC 9438 4.6: 0.7 of the flight
  peer.now += millis(10);
  peer.ack(static_cast<uint32_t>(peer.info().bytes_sent));
  EXPECT_EQ(peer.info().cwnd_bytes, ssthresh);
}

TEST(Recovery, LiesInSackBlocksChangeNothing) {
  Peer peer;
  send_ten(peer);
  peer.ack_with_sack(0, {{15000, 18000}});   // never sent
  peer.ack_with_sack(0, {{5000, 4000}});     // backwards
  peer.ack_with_sack(2000, {{500, 30000}});  // too long
  EXPECT_EQ(peer.info().in_flight_bytes, 8000u);
}

/// Only the FIN arrived: the text before it is sent again without a timeout, and the FIN is not.
TEST(Recovery, SackOfTheFinShowsWhatIsMissingBeforeIt) {  // RFC 2018 5
  Peer peer;
  peer.dial();
  peer.app_send(1000);
  peer.all();
  peer.shutdown();
  ASSERT_TRUE(peer.next()->flags.has(wire::TcpFlags::kFin));
  peer.now += millis(10);
  peer.ack_with_sack(0, {{1000, 1001}});
  auto again = peer.next();
  if (!again) {
    peer.run_deadline();
    again = peer.next();
  }
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->is_retransmission);
  EXPECT_EQ(again->seq, peer.us(0));
  EXPECT_EQ(again->payload_bytes, 1000u);
  EXPECT_FALSE(again->flags.has(wire::TcpFlags::kFin));
  EXPECT_EQ(peer.info().timeouts, 0u);
  peer.ack(1001);
  EXPECT_EQ(peer.state(), State::kFinWait2);
}

TEST(Recovery, WhatWasPushedIsPushedAgain) {  // RFC 9293 3.9.1.2
  Peer peer;
  peer.dial();
  for (int i = 0; i < 4; ++i) {
    peer.app_send(1000);
    EXPECT_TRUE(peer.next()->flags.has(wire::TcpFlags::kPsh));
    peer.now += micros(1);
  }
  peer.now += millis(10);
  peer.ack_with_sack(0, {{1000, 4000}});
  const auto again = peer.next();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->seq, peer.us(0));
  EXPECT_TRUE(again->flags.has(wire::TcpFlags::kPsh));
}

TEST(Recovery, TheMiddleOfAWriteIsNotPushed) {
  Peer peer;
  peer.dial();
  peer.app_send(4000);
  peer.all();
  peer.now += millis(10);
  peer.ack_with_sack(0, {{1000, 4000}});
  EXPECT_FALSE(peer.next()->flags.has(wire::TcpFlags::kPsh));
}

TEST(TailProbe, LastSegmentGoesAgainAfterTwoRoundTrips) {  // RFC 8985 7.2
  Peer peer;
  peer.dial();
  peer.app_send(3000);
  peer.all();
  const Nanos sent_at = peer.now;
  peer.run_deadline();
  EXPECT_LT(peer.now - sent_at, peer.info().rto);
  const auto probe = peer.next();
  ASSERT_TRUE(probe.has_value());
  EXPECT_EQ(probe->seq, peer.us(2000));
  EXPECT_TRUE(probe->is_retransmission);
  EXPECT_EQ(peer.info().timeouts, 0u);
}

TEST(TailProbe, PrefersNewData) {  // RFC 8985 7.3
  Peer peer;
  peer.dial(3000);
  peer.app_send(5000);
  EXPECT_EQ(peer.all().size(), 3u);
  peer.window = 6000;
  peer.ack(0);  // the window opens, but suppose the caller did not poll
  peer.run_deadline();
  const auto probe = peer.next();
  ASSERT_TRUE(probe.has_value());
  EXPECT_EQ(probe->seq, peer.us(3000));
  EXPECT_FALSE(probe->is_retransmission);
}

// Each send put the probe off, and no timeout ran beside it.
TEST(TailProbe, NewTextPutsOffNeitherItNorTheTimeoutForEver) {  // RFC 8985 7.2, RFC 6298 5.1
  Peer peer;
  peer.dial();
  const Nanos until = peer.now + peer.info().rto * 3;
  while (peer.now < until) {
    peer.app_send(100);
    peer.all();
    peer.wait(millis(20));
  }
  EXPECT_GE(peer.info().timeouts, 1u);
}

/// The tail arrives between the probe's timer and the caller's poll.
TEST(TailProbe, OneThatHasNothingToSendDoesNotKeepBackTheNext) {  // RFC 8985 7.3
  // The numbers of the second connection are half the sequence space away from the first one's.
  for (const Nanos start : {seconds(100), seconds(100) + micros(4) * (int64_t{1} << 31)}) {
    Peer peer;
    peer.now = start;
    peer.dial();
    peer.app_send(3000);
    peer.all();
    peer.run_deadline();
    peer.ack_with_sack(0, {{2000, 3000}});
    EXPECT_FALSE(peer.next().has_value());
    peer.ack(3000);
    peer.app_send(1000);
    peer.all();
    EXPECT_EQ(peer.info().waiting, Waiting::kTailProbe);
  }
}

TEST(TailProbe, RepairedLossCostsAReduction) {  // RFC 8985 7.4.2
  Peer peer;
  peer.dial();
  peer.app_send(8000);
  peer.all();
  peer.now += millis(10);
  peer.ack(7000);
  const uint32_t before = peer.info().cwnd_bytes;
  peer.run_deadline();
  ASSERT_TRUE(peer.next().has_value());
  peer.now += millis(10);
  peer.app_send(1000);
  peer.all();
  peer.ack(9000);  // no DSACK: the probe was needed
  EXPECT_LT(peer.info().cwnd_bytes, before);
}

/// A window of more than 100 segments. Of a burst of 40 the last three are lost; the tail loss
/// probe arrives and shows that. Returns the end of the burst.
uint32_t lose_the_tail_of_a_burst(Peer& peer) {
  peer.dial();
  uint32_t end = 0;
  for (int i = 0; i < 4; ++i) {
    peer.app_send(60000);
    while (!peer.all().empty()) {
      peer.now += millis(1);
      end = static_cast<uint32_t>(peer.info().bytes_sent);
      peer.ack(end);
    }
  }
  EXPECT_GE(peer.info().cwnd_bytes, 100'000u);
  peer.app_send(40000);
  EXPECT_EQ(peer.all().size(), 40u);
  end += 40000;
  peer.now += millis(1);
  peer.ack(end - 3000);
  peer.run_deadline();
  EXPECT_EQ(peer.all().size(), 1u);
  peer.now += millis(2);
  peer.ack_with_sack(end - 3000, {{end - 1000, end}});
  EXPECT_EQ(peer.info().fast_recoveries, 1u);
  peer.all();
  return end;
}

// It was reduced to the segments in flight.
TEST(Recovery, LossAtTheEndOfABurstKeepsMostOfTheWindow) {  // RFC 9438 4.6
  Peer peer;
  const uint32_t end = lose_the_tail_of_a_burst(peer);
  peer.now += millis(2);
  peer.ack(end);
  EXPECT_GE(peer.info().cwnd_bytes, 60'000u);
}

TEST(Recovery, TimeoutReducesTheWindowThatPrrWasToReach) {  // RFC 9438 4.8
  Peer peer;
  lose_the_tail_of_a_burst(peer);
  const uint32_t reduced = peer.info().ssthresh_bytes;
  while (peer.info().timeouts == 0) {
    peer.run_deadline();
    peer.all();
  }
  EXPECT_NEAR(peer.info().ssthresh_bytes, reduced * 0.7, 1000);
}

TEST(TailProbe, SpuriousOneCostsNothing) {
  Peer peer;
  peer.dial();
  peer.app_send(3000);
  peer.all();
  peer.run_deadline();
  ASSERT_TRUE(peer.next().has_value());
  const uint32_t before = peer.info().cwnd_bytes;
  peer.ack_with_sack(3000, {{2000, 3000}});  // RFC 2883: it came twice
  EXPECT_GE(peer.info().cwnd_bytes, before);
}

TEST(NewReno, ThirdDuplicateSendsTheFrontAgain) {  // RFC 5681 3.2
  Peer peer(newreno_without_sack());
  send_ten(peer);
  peer.ack(0);
  peer.ack(0);
  for (const SegmentOut& segment : peer.all()) {  // RFC 3042 2: limited transmit
    EXPECT_FALSE(segment.is_retransmission);
    EXPECT_GE(peer.at(segment.seq), 10000u);
  }
  peer.ack(0);
  const auto again = peer.next();
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->is_retransmission);
  EXPECT_EQ(again->seq, peer.us(0));
}

TEST(NewReno, LimitedTransmitSendsOneNewSegmentADuplicate) {  // RFC 3042 2
  Peer peer(newreno_without_sack());
  send_ten(peer);
  peer.ack(0);
  EXPECT_EQ(peer.all().size(), 1u);
  peer.ack(0);
  EXPECT_EQ(peer.all().size(), 1u);
}

TEST(NewReno, PartialAckSendsTheNextHole) {  // RFC 6582 3.2
  Peer peer(newreno_without_sack());
  send_ten(peer);
  for (int i = 0; i < 3; ++i) peer.ack(0);
  peer.all();
  peer.now += millis(10);
  peer.ack(4000);
  const auto next = peer.next();
  ASSERT_TRUE(next.has_value());
  EXPECT_TRUE(next->is_retransmission);
  EXPECT_EQ(next->seq, peer.us(4000));
  EXPECT_EQ(peer.info().timeouts, 0u);
}

TEST(NewReno, DuplicatesOfTheRecoveryPointStartNothing) {  // RFC 6582 3.2 step 2
  Peer peer(newreno_without_sack());
  send_ten(peer);
  peer.run_deadline();  // timeout: recover is at 10000
  peer.all();
  peer.now += millis(10);
  peer.ack(10000);
  peer.all();
  const uint32_t recoveries = peer.info().fast_recoveries;
  for (int i = 0; i < 4; ++i) peer.ack(10000);
  EXPECT_EQ(peer.info().fast_recoveries, recoveries);
}

TEST(NewReno, WindowUpdateIsNoDuplicate) {  // RFC 5681 2
  Peer peer(newreno_without_sack());
  send_ten(peer);
  for (int i = 0; i < 5; ++i) {
    peer.window = static_cast<uint16_t>(peer.window - 100);
    peer.ack(0);
  }
  EXPECT_EQ(peer.info().fast_recoveries, 0u);
}

// It waited for a timeout, which also made the window one segment.
TEST(Reneging, DiscardedTextIsSentAgainAtOnce) {  // RFC 2018 8
  Peer peer;
  send_ten(peer);
  peer.ack_with_sack(1000, {{2000, 3000}});
  peer.all();
  peer.ack_with_sack(2000, {});  // up to the SACKed segment, which the receiver has discarded
  const auto again = peer.next();
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->is_retransmission);
  EXPECT_EQ(again->seq, peer.us(2000));
  EXPECT_EQ(again->payload_bytes, 1000u);
  EXPECT_EQ(peer.info().timeouts, 0u);
  EXPECT_EQ(peer.info().fast_recoveries, 1u);
  EXPECT_GT(peer.info().cwnd_bytes, 1000u);
}

TEST(Reneging, AllThatWasSackedIsSentAgainInOrder) {  // RFC 2018 8
  Peer peer;
  send_ten(peer);
  peer.ack_with_sack(0, {{1000, 2000}, {3000, 5000}});  // 0 and 2000 are lost
  peer.all();
  peer.now += millis(10);
  peer.ack_with_sack(1000, {});
  const auto first = peer.next();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->seq, peer.us(1000));
  peer.now += millis(10);
  peer.ack_with_sack(3000, {});
  const auto second = peer.next();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->seq, peer.us(3000));
  EXPECT_EQ(peer.info().timeouts, 0u);
  EXPECT_EQ(peer.info().fast_recoveries, 1u) << "it was repairing already";
}

// After an undo an ACK changes nothing more.
TEST(Reneging, WhatAnUndoHidIsSentAgainAfterATimeout) {  // RFC 2018 8
  Peer peer;
  send_ten(peer);
  peer.ack_with_sack(0, {{2000, 6000}});  // 0 and 1000 are sent again
  peer.all();
  peer.now += millis(10);
  peer.ack_with_sack(2000, {{0, 2000}});  // both arrived twice, and what was SACKed is gone
  EXPECT_EQ(peer.info().undone_reductions, 1u);
  while (peer.info().timeouts == 0) {
    peer.all();
    peer.run_deadline();
  }
  const auto again = peer.next();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->seq, peer.us(2000));
}

// The peer waited 40 ms more for the ACK of the first segment that it sent again.
TEST(Acknowledgments, FirstSegmentAfterAnOutageIsAcknowledgedAtOnce) {
  Peer peer;
  peer.dial();
  uint32_t at = 0;
  const auto acks_of_full_segment = [&] {
    SegmentIn segment = peer.make(kA, at, 0, 1000);
    segment.flags.bits = kA;  // no PSH
    peer.send(segment);
    at += 1000;
    return peer.all().size();
  };
  for (int i = 0; i < 20; ++i) acks_of_full_segment();
  EXPECT_EQ(acks_of_full_segment() + acks_of_full_segment(), 1u);
  peer.wait(millis(300));
  EXPECT_EQ(acks_of_full_segment(), 1u);
  EXPECT_EQ(acks_of_full_segment(), 1u);
  EXPECT_EQ(acks_of_full_segment(), 0u);
}

}  // namespace
}  // namespace lyre::tcp
