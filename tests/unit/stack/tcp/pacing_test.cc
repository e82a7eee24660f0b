#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lyre::tcp
