#include "stack/tcp/pacing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

ConnectionConfig paced() {
  ConnectionConfig config = Peer::plain_config();
  config.pacing = true;
  return config;
}

/// Sends a window and lets `span` pass, running at deadlines only. Returns the bytes that were
/// sent.
uint32_t sent_within(Peer& peer, Nanos span) {
  const Nanos until = peer.now + span;
  uint32_t bytes = 0;
  while (true) {
    for (const SegmentOut& segment : peer.all()) bytes += segment.payload_bytes;
    if (peer.engine.next_deadline(peer.conn) > until) break;
    peer.run_deadline();
  }
  peer.now = until;
  return bytes;
}

TEST(Pacing, OffByDefault) {
  Peer peer;
  peer.dial();
  peer.app_send(10000);
  EXPECT_EQ(peer.all().size(), 10u);
}

TEST(Pacing, SpreadsTheWindowOverTheRoundTrip) {
  Peer peer(paced());
  peer.dial();  // the handshake took 10 ms; slow start paces at twice a window a round trip
  peer.app_send(10000);
  const uint32_t at_once = sent_within(peer, nanos(0));
  EXPECT_GE(at_once, 1000u);
  EXPECT_LE(at_once, 4000u);
  const uint32_t half = at_once + sent_within(peer, micros(2500));
  EXPECT_GE(half, 5000u);
  EXPECT_LE(half, 9000u);
  EXPECT_EQ(half + sent_within(peer, micros(2600)), 10000u);
}

TEST(Pacing, AcknowledgementsDoNotWait) {
  Peer peer(paced());
  peer.dial();
  peer.app_send(10000);
  peer.all();
  peer.text(0, 1000);
  const auto ack = peer.next();
  ASSERT_TRUE(ack.has_value());
  EXPECT_EQ(ack->payload_bytes, 0u);
}

TEST(Pacing, GivenRateHoldsWhateverTheWindowAllows) {
  ConnectionConfig config = Peer::plain_config();
  config.pacing_bytes_per_s_max = 100'000;
  Peer peer(config);
  peer.dial();
  peer.app_send(10000);
  EXPECT_NEAR(sent_within(peer, millis(50)), 5000, 1000);
}

TEST(Pacing, LateCallerMakesUpForAMillisecondOnly) {
  ConnectionConfig config = Peer::plain_config();
  config.pacing_bytes_per_s_max = 1'000'000;  // a segment a millisecond
  Peer peer(config);
  peer.dial();
  peer.now += seconds(1);
  peer.app_send(10000);
  EXPECT_LE(peer.all().size(), 2u);
}

constexpr uint32_t kTsoBytesMax = 64 << 10;

/// A connection in slow start with a window of 100 segments and more, all of which may be sent.
class WideWindow : public testing::Test {
 protected:
  void open(Nanos rtt) {
    peer.handshake_rtt = rtt;
    peer.syn_options.window_scale = 7;
    peer.dial();
    uint32_t sent = 0;
    while (peer.info().cwnd_bytes < 100'000) sent = run_round(sent, rtt);
    window_bytes = peer.info().cwnd_bytes;
    peer.now += rtt;
    peer.app_send(window_bytes);
  }
  /// Text that leaves without waiting, as a percentage of the window.
  uint32_t percent_at_once() {
    uint32_t bytes = 0;
    for (const SegmentOut& segment : peer.all(kTsoBytesMax)) bytes += segment.payload_bytes;
    return bytes * 100 / window_bytes;
  }
  static ConnectionConfig wide() {
    ConnectionConfig config = paced();
    config.window_scaling = true;
    return config;
  }

  Peer peer{wide()};
  uint32_t window_bytes = 0;

 private:
  /// A window, of which each segment is acknowledged a round trip after it was sent.
  uint32_t run_round(uint32_t sent, Nanos rtt) {
    std::vector<std::pair<uint32_t, Nanos>> acks;
    peer.app_send(peer.info().cwnd_bytes / 1000 * 1000);
    while (true) {
      for (const SegmentOut& segment : peer.all()) {
        acks.emplace_back(sent += segment.payload_bytes, peer.now + rtt);
      }
      if (peer.info().unsent_bytes == 0) break;
      peer.run_deadline();
    }
    for (const auto& [end, at] : acks) {
      peer.now = later(peer.now, at);
      peer.ack(end);
    }
    return sent;
  }
};

TEST_F(WideWindow, OneLargeSendIsSmallPartOfALongRoundTrip) {
  open(millis(10));
  EXPECT_LE(percent_at_once(), 30u);
}

// All of it left at once.
TEST_F(WideWindow, OneMillisecondIsSpreadAsWell) {
  open(millis(1));
  EXPECT_LE(percent_at_once(), 70u);
}

/// Text of a connection that has always some, and is asked for it 130 us after each deadline.
uint64_t sent_by_late_caller(Connection& c, Nanos span) {
  Nanos now = seconds(1);
  const Nanos until = now + span;
  uint64_t bytes = 0;
  while (now < until) {
    if (is_paced_out(c, now)) {
      now = c.deadline(Timer::kPace) + micros(130);
      continue;
    }
    const uint32_t room = paced_room(c, now);
    const uint32_t sent = std::max(room - room % c.snd.mss_bytes, uint32_t{c.snd.mss_bytes});
    note_paced(c, sent, now);
    bytes += sent;
  }
  return bytes;
}

TEST(Pacing, LateTimersCostNoRate) {
  for (const Nanos rtt : {micros(200), millis(1), millis(10)}) {
    Connection c;
    c.config.pacing = true;
    c.snd.mss_bytes = 1000;
    c.cc.ssthresh_bytes = c.cc.cwnd_bytes = 100'000;
    c.rtt.on_sample(rtt, seconds(1), millis(200), seconds(60));
    EXPECT_GE(sent_by_late_caller(c, rtt * 1000), c.cc.cwnd_bytes * uint64_t{1000}) << rtt.value;
  }
}

/// A host that stood still measures long round trips for a while.
TEST(Pacing, LongRoundTripOfAMomentLeavesNoGap) {
  Peer peer(paced());
  peer.handshake_rtt = micros(200);
  peer.dial();
  uint32_t sent = 0;
  const auto send_one = [&] {
    peer.app_send(1000);
    while (peer.all().empty()) peer.run_deadline();
    sent += 1000;
  };
  for (int i = 0; i < 10; ++i) {
    send_one();
    peer.now += seconds(1);
    peer.ack(sent);
  }
  send_one();
  send_one();
  peer.now += micros(200);
  for (uint32_t i = 40; i-- > 0;) peer.ack(sent - 1000 - i * 25);
  peer.app_send(1000);
  EXPECT_EQ(sent_within(peer, millis(2)), 1000u);
}

}  // namespace
}  // namespace lyre::tcp
