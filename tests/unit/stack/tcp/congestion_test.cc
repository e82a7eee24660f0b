#include "stack/tcp/congestion.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

constexpr uint32_t kMss = 1000;

TEST(InitialWindow, FollowsRfc6928) {
  // RFC 6928 2.
  EXPECT_EQ(initial_window_bytes(1460), 14600u);
  EXPECT_EQ(initial_window_bytes(536), 5360u);
  EXPECT_EQ(initial_window_bytes(8960), 17920u);
}

TEST(NewReno, SlowStartDoublesARound) {  // RFC 5681 3.1
  Congestion cc;
  congestion_start(cc, CongestionAlgorithm::kNewReno, kMss);
  for (int i = 0; i < 10; ++i) {
    congestion_on_ack(cc, {.delivered_bytes = kMss, .is_cwnd_limited = true}, seconds(1));
  }
  EXPECT_EQ(cc.cwnd_bytes, 20 * kMss);
}

TEST(NewReno, AvoidanceAddsOneSegmentARound) {
  Congestion cc;
  congestion_start(cc, CongestionAlgorithm::kNewReno, kMss);
  cc.ssthresh_bytes = cc.cwnd_bytes;
  for (int i = 0; i < 10; ++i) {
    congestion_on_ack(cc, {.delivered_bytes = kMss, .is_cwnd_limited = true}, seconds(1));
  }
  EXPECT_EQ(cc.cwnd_bytes, 11 * kMss);
}

TEST(NewReno, LossHalvesTheFlight) {
  Congestion cc;
  congestion_start(cc, CongestionAlgorithm::kNewReno, kMss);
  cc.cwnd_bytes = 30 * kMss;
  congestion_on_loss(cc, 30 * kMss);
  EXPECT_EQ(cc.ssthresh_bytes, 15 * kMss);
  congestion_on_loss(cc, kMss);
  EXPECT_EQ(cc.ssthresh_bytes, 2 * kMss);
}

TEST(Congestion, UnusedWindowDoesNotGrow) {  // RFC 7661 4.3
  Congestion cc;
  congestion_start(cc, CongestionAlgorithm::kNewReno, kMss);
  congestion_on_ack(cc, {.delivered_bytes = kMss, .is_cwnd_limited = false}, seconds(1));
  EXPECT_EQ(cc.cwnd_bytes, 10 * kMss);
}

TEST(Congestion, TimeoutLeavesOneSegmentAndKeepsSsthreshTheSecondTime) {
  Congestion cc;
  congestion_start(cc, CongestionAlgorithm::kNewReno, kMss);
  congestion_on_timeout(cc, 10 * kMss, true);
  EXPECT_EQ(cc.cwnd_bytes, kMss);
  EXPECT_EQ(cc.ssthresh_bytes, 5 * kMss);
  congestion_on_timeout(cc, kMss, false);
  EXPECT_EQ(cc.ssthresh_bytes, 5 * kMss);
}

TEST(Congestion, IdleFallsBackToTheInitialWindow) {  // RFC 5681 4.1
  Congestion cc;
  congestion_start(cc, CongestionAlgorithm::kCubic, kMss);
  cc.cwnd_bytes = 100 * kMss;
  congestion_on_idle(cc, seconds(5), millis(200));
  EXPECT_EQ(cc.cwnd_bytes, 10 * kMss);
}

TEST(Congestion, EachIdleTimeoutHalvesTheWindow) {  // RFC 2861 3
  Congestion cc;
  congestion_start(cc, CongestionAlgorithm::kCubic, kMss);
  cc.cwnd_bytes = 100 * kMss;
  cc.ssthresh_bytes = 50 * kMss;
  congestion_on_idle(cc, millis(500), millis(200));
  EXPECT_EQ(cc.cwnd_bytes, 25 * kMss);
  EXPECT_EQ(cc.ssthresh_bytes, 75 * kMss);
}

TEST(Congestion, UnusedWindowComesHalfWayDown) {  // RFC 2861 3
  Congestion cc;
  congestion_start(cc, CongestionAlgorithm::kCubic, kMss);
  cc.cwnd_bytes = 100 * kMss;
  congestion_on_unused(cc, 40 * kMss);
  EXPECT_EQ(cc.cwnd_bytes, 70 * kMss);
  cc.cwnd_bytes = 10 * kMss;
  congestion_on_unused(cc, kMss);
  EXPECT_EQ(cc.cwnd_bytes, 10 * kMss);
}

TEST(Congestion, UndoGivesBackWindowAndCurve) {  // RFC 9438 4.9
  Congestion cc;
  congestion_start(cc, CongestionAlgorithm::kCubic, kMss);
  cc.cwnd_bytes = 100 * kMss;
  *cc.cubic() = {
      .w_max = 90e3, .cwnd_prior = 90e3, .w_est = 80e3, .k_seconds = 2, .epoch_start = seconds(7)};
  const CongestionMemory memory = congestion_remember(cc);
  congestion_on_timeout(cc, 100 * kMss, true);
  congestion_undo(cc, memory);
  EXPECT_EQ(cc.cwnd_bytes, 100 * kMss);
  EXPECT_EQ(cc.ssthresh_bytes, kSsthreshUnset);
  EXPECT_EQ(cc.cubic()->w_max, 90e3);
  EXPECT_EQ(cc.cubic()->epoch_start, seconds(7));
}

class CubicEpoch : public testing::Test {
 protected:
  CubicEpoch() {
    congestion_start(cc, CongestionAlgorithm::kCubic, kMss);
    cc.cwnd_bytes = 100 * kMss;
    congestion_on_loss(cc, 100 * kMss);
    cc.cwnd_bytes = cc.ssthresh_bytes;
  }
  /// One round trip of ACKs for a full window.
  void round() {
    const uint32_t segments = cc.cwnd_bytes / kMss;
    for (uint32_t i = 0; i < segments; ++i) {
      congestion_on_ack(cc, {.delivered_bytes = kMss, .is_cwnd_limited = true, .srtt = millis(100)},
                        now);
    }
    now += millis(100);
  }
  Congestion cc;
  Nanos now = seconds(1);
};

TEST_F(CubicEpoch, LossLeavesSeventyPercent) {  // RFC 9438 4.6
  EXPECT_EQ(cc.ssthresh_bytes, 70 * kMss);
}

TEST_F(CubicEpoch, ClimbsBackToTheOldMaximumInKSeconds) {  // RFC 9438 4.2, 5.1: K = cbrt(30 / 0.4)
  const Nanos start = now;
  while (now - start < micros(4'217'000)) round();
  EXPECT_NEAR(cc.cwnd_bytes, 100.0 * kMss, 3.0 * kMss);
}

// K was of the old segment size: the window stood still for long, or leapt.
TEST_F(CubicEpoch, BeginsAnewWithAnotherSegmentSize) {  // RFC 9438 figure 2
  const Nanos start = now;
  round();
  congestion_set_mss(cc, kMss);
  EXPECT_EQ(cc.cubic()->epoch_start, start);
  const uint32_t cwnd = cc.cwnd_bytes;
  congestion_set_mss(cc, 2 * kMss);
  EXPECT_EQ(cc.cubic()->epoch_start, kNever);
  EXPECT_EQ(cc.cwnd_bytes, cwnd);
  round();
  EXPECT_NEAR(cc.cubic()->k_seconds, std::cbrt((100e3 - cwnd) / (0.4 * 2 * kMss)), 1e-9);
}

TEST_F(CubicEpoch, IsFlatNearTheOldMaximumAndSteepBeyond) {
  uint32_t before = cc.cwnd_bytes;
  round();
  round();
  const uint32_t early = cc.cwnd_bytes - before;
  while (now < seconds(1) + millis(4000)) round();
  before = cc.cwnd_bytes;
  round();
  round();
  const uint32_t flat = cc.cwnd_bytes - before;
  while (now < seconds(1) + millis(9000)) round();
  before = cc.cwnd_bytes;
  round();
  round();
  const uint32_t steep = cc.cwnd_bytes - before;
  EXPECT_LT(flat, early);
  EXPECT_GT(steep, early);
}

TEST_F(CubicEpoch, SecondLossBelowTheMaximumConvergesFast) {  // RFC 9438 4.7
  congestion_on_loss(cc, cc.cwnd_bytes);
  EXPECT_NEAR(cc.cubic()->w_max, 70 * 0.85 * kMss, 1);
}

/// With a short RTT Reno is faster than the curve: 0.53 segments per round trip up to the old
/// window, then one.
TEST_F(CubicEpoch, FollowsRenoWhereThatIsFaster) {  // RFC 9438 4.3
  cc.cwnd_bytes = 10 * kMss;
  congestion_on_loss(cc, 10 * kMss);
  cc.cwnd_bytes = cc.ssthresh_bytes;
  for (int rounds = 0; rounds < 20; ++rounds) {
    const uint32_t segments = cc.cwnd_bytes / kMss;
    for (uint32_t i = 0; i < segments; ++i) {
      congestion_on_ack(cc, {.delivered_bytes = kMss, .is_cwnd_limited = true, .srtt = millis(1)},
                        now);
    }
    now += millis(1);
  }
  EXPECT_NEAR(cc.cwnd_bytes, 22.0 * kMss, 4.0 * kMss);
}

/// The path's MTU has changed; its capacity in bytes has not.
TEST_F(CubicEpoch, SegmentsOfAnotherSizeMoveTheWindowNoFaster) {
  for (int i = 0; i < 40; ++i) round();
  for (const uint32_t mss_bytes : {3 * kMss, kMss / 3}) {
    cc.mss_bytes = mss_bytes;
    const uint32_t before = cc.cwnd_bytes;
    congestion_on_ack(cc, {.delivered_bytes = kMss, .is_cwnd_limited = true, .srtt = millis(100)},
                      now);
    EXPECT_LT(cc.cwnd_bytes - before, 3 * kMss);
  }
}

TEST_F(CubicEpoch, TimeWithoutDemandDoesNotCount) {  // RFC 9438 5.8
  round();
  now += seconds(10);
  congestion_on_ack(cc, {.delivered_bytes = kMss, .is_cwnd_limited = false, .srtt = millis(100)},
                    now);
  const uint32_t before = cc.cwnd_bytes;
  round();
  EXPECT_LT(cc.cwnd_bytes - before, 5 * kMss);
}

// Each ACK without demand made the present window the maximum of a new, flat curve.
TEST_F(CubicEpoch, TimeWithoutDemandKeepsThePlaceBeyondTheMaximum) {  // RFC 9438 5.8
  while (now < seconds(16)) round();
  congestion_on_ack(cc, {.delivered_bytes = kMss, .is_cwnd_limited = false, .srtt = millis(100)},
                    now);
  const uint32_t before = cc.cwnd_bytes;
  round();
  round();
  EXPECT_GT(cc.cwnd_bytes - before, 5 * kMss);
}

// The end of a burst: ssthresh was two segments.
TEST_F(CubicEpoch, LossOfTheLastSegmentsReducesTheWindowAndNotToThem) {  // RFC 9438 4.6
  cc.cwnd_bytes = 100 * kMss;
  congestion_on_loss(cc, 3 * kMss);
  EXPECT_EQ(cc.ssthresh_bytes, 70 * kMss);
  congestion_on_timeout(cc, 3 * kMss, true);
  EXPECT_EQ(cc.ssthresh_bytes, 70 * kMss);
}

TEST_F(CubicEpoch, CurveAfterATimeoutStartsFlatAtTheWindow) {  // RFC 9438 4.8
  congestion_on_timeout(cc, 70 * kMss, true);
  cc.cwnd_bytes = cc.ssthresh_bytes;
  round();
  EXPECT_EQ(cc.cubic()->k_seconds, 0);
  EXPECT_EQ(cc.cubic()->w_max, 49 * kMss);
}

TEST(CongestionInEngine, WindowGrowsOnlyWhenItWasFull) {
  Peer peer;
  peer.dial();
  peer.app_send(1000);
  peer.all();
  peer.now += millis(10);
  peer.ack(1000);
  EXPECT_EQ(peer.info().cwnd_bytes, 10000u);
  peer.app_send(30000);
  EXPECT_EQ(peer.all().size(), 10u);
  peer.now += millis(10);
  peer.ack(3000);
  EXPECT_EQ(peer.info().cwnd_bytes, 12000u);
}

TEST(CongestionInEngine, WindowThatALongTimeWasNotFullIsCut) {  // RFC 2861 3
  Peer peer;
  peer.dial();
  uint32_t acked = 0;
  peer.app_send(50000);
  while (acked < 50000) {
    peer.all();
    peer.now += millis(1);
    acked = static_cast<uint32_t>(peer.info().bytes_sent);
    peer.ack(acked);
  }
  const uint32_t grown = peer.info().cwnd_bytes;
  ASSERT_GT(grown, 20000u);
  for (int i = 0; i < 20; ++i) {  // two seconds of single segments
    peer.app_send(1000);
    peer.all();
    peer.now += millis(100);
    acked += 1000;
    peer.ack(acked);
  }
  EXPECT_LT(peer.info().cwnd_bytes, grown * 3 / 4);
  EXPECT_GE(peer.info().cwnd_bytes, 10000u);
}

/// Sends until the window has grown. Returns how much was sent and acknowledged.
uint32_t grow_to_several_initial_windows(Peer& peer) {
  uint32_t acked = 0;
  for (int i = 0; i < 3; ++i) {
    peer.app_send(40000);
    while (!peer.all().empty()) {
      peer.now += millis(1);
      acked = static_cast<uint32_t>(peer.info().bytes_sent);
      peer.ack(acked);
    }
  }
  EXPECT_GT(peer.info().cwnd_bytes, 20000u);
  return acked;
}

// Each poll halved it again.
TEST(CongestionInEngine, IdleTimeoutHalvesOnceWhileThePeerHasNoRoom) {  // RFC 2861 3
  Peer peer;
  peer.dial();
  const uint32_t acked = grow_to_several_initial_windows(peer);
  const uint32_t grown = peer.info().cwnd_bytes;
  peer.window = 0;
  peer.ack(acked);
  peer.app_send(1000);
  peer.now += peer.info().rto * 3 / 2;
  EXPECT_TRUE(peer.all().empty());
  const uint32_t halved = peer.info().cwnd_bytes;
  EXPECT_EQ(halved, grown / 2);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(peer.all().empty());
  EXPECT_EQ(peer.info().cwnd_bytes, halved);
}

TEST(CongestionInEngine, IdleConnectionRestartsAtTheInitialWindow) {  // RFC 5681 4.1
  Peer peer;
  peer.dial();
  grow_to_several_initial_windows(peer);
  peer.wait(seconds(5));
  peer.app_send(60000);
  EXPECT_EQ(peer.all().size(), 10u);
}

}  // namespace
}  // namespace lyre::tcp
