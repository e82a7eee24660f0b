#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

constexpr uint32_t kStart = 20000;

/// A receive buffer of 20 segments that may grow to 800.
ConnectionConfig growing(bool has_timestamps) {
  ConnectionConfig config = Peer::plain_config();
  config.window_scaling = true;
  config.timestamps = has_timestamps;
  config.receive_buffer_start_bytes = kStart;
  config.receive_buffer_bytes = 800'000;
  return config;
}

/// A peer that sends all that the window allows for `rounds` round trips; the application reads at
/// once. Returns the window that is offered at the end.
class Stream {
 public:
  explicit Stream(const ConnectionConfig& config, Nanos handshake_rtt = millis(10))
      : peer(config), scale(config.receive_buffer_bytes > UINT16_MAX ? 4 : 0) {
    peer.handshake_rtt = handshake_rtt;
    peer.syn_options.has_timestamps = config.timestamps;
    peer.dial();
    window = peer.info().receive_window_bytes;
  }
  void round(Nanos rtt, uint32_t bytes_max) {
    const uint32_t bytes = std::min(window, bytes_max) / 1000 * 1000;
    const uint32_t echoed = echo;  // sent before the ACKs of this round arrived
    for (uint32_t i = 0; i < bytes; i += 1000) {
      SegmentIn text = peer.make(kA, at, 0, 1000);
      text.options.has_timestamps = peer.config.timestamps;
      text.options.ts_value = 5;
      text.options.ts_echo = echoed;
      peer.send(text);
      while (peer.queue().take_readable()) {
      }
      peer.release(1000);
      at += 1000;
      for (const SegmentOut& ack : peer.all()) check(ack);
    }
    peer.now += rtt;
  }
  void check(const SegmentOut& ack) {
    const SeqNum edge = ack.ack + (uint32_t{ack.window} << scale);
    if (has_edge) {
      EXPECT_TRUE(edge.at_or_after(last_edge)) << "the window shrank";
    }
    has_edge = true;
    last_edge = edge;
    window = uint32_t{ack.window} << scale;
    echo = ack.options.ts_value;
  }

  Peer peer;
  uint32_t scale;  ///< with 4 bits a window of 800 000 bytes fits
  uint32_t window = 0;
  uint32_t at = 0;
  uint32_t echo = 0;
  bool has_edge = false;
  SeqNum last_edge;
};

TEST(ReceiveTuning, WindowFollowsAFastReaderUpToTheLimit) {
  for (const bool has_timestamps : {true, false}) {
    Stream stream(growing(has_timestamps));
    EXPECT_LE(stream.window, kStart + 16);
    for (int i = 0; i < 12; ++i) stream.round(millis(20), UINT32_MAX);
    EXPECT_GT(stream.window, 600'000u) << has_timestamps;
    EXPECT_LE(stream.window, 800'000u + 16);
  }
}

/// A path with an RTT of 50 us, plus the time that the window waits in a queue of 100 bytes/us.
void queued_round(Stream& stream) {
  stream.round(later(micros(50), micros(stream.window / 100)), UINT32_MAX);
}

TEST(ReceiveTuning, AWindowDoesNotGrowForTheQueueItMakes) {
  Stream stream(growing(true), micros(50));
  for (int i = 0; i < 200; ++i) queued_round(stream);
  EXPECT_GE(stream.window, 50'000u);
  EXPECT_LE(stream.window, 200'000u);
}

// Echoes that returned within one tick made it a short path, whose window does not grow.
TEST(ReceiveTuning, APathOfAboutOneTickIsFilled) {
  Stream stream(growing(true), micros(900));
  for (int i = 0; i < 20; ++i) stream.round(micros(900), UINT32_MAX);
  for (int i = 0; i < 40; ++i) stream.round(micros(1100), UINT32_MAX);
  EXPECT_GT(stream.window, 600'000u);
}

TEST(ReceiveTuning, APathThatBecomesLongerIsFilled) {
  Stream stream(growing(true), micros(50));
  for (int i = 0; i < 200; ++i) queued_round(stream);
  for (int i = 0; i < 30; ++i) stream.round(millis(20), UINT32_MAX);
  EXPECT_GT(stream.window, 600'000u);
}

TEST(ReceiveTuning, ASlowSenderGetsSeveralRoundsWorthAndNoMore) {
  Stream stream(growing(true));
  for (int i = 0; i < 30; ++i) stream.round(millis(20), 15'000);
  EXPECT_GE(stream.window, 2 * 15'000u);
  EXPECT_LE(stream.window, 8 * 15'000u);
}

TEST(ReceiveTuning, AStandstillIsNoLongRound) {
  Stream stream(growing(true));
  for (int i = 0; i < 30; ++i) stream.round(millis(20), 15'000);
  stream.peer.engine.on_standstill(seconds(10), stream.peer.now);
  stream.peer.now += seconds(10);
  for (int i = 0; i < 30; ++i) stream.round(millis(20), 15'000);
  EXPECT_LE(stream.window, 8 * 15'000u);
}

TEST(ReceiveTuning, AReaderThatTakesNothingGetsNoMore) {
  Peer peer(growing(true));
  peer.syn_options.has_timestamps = true;
  peer.dial();
  for (uint32_t at = 0; at < 15'000; at += 1000) {
    peer.text(at, 1000);
    peer.all();
    peer.now += millis(20);
  }
  EXPECT_LE(peer.info().receive_window_bytes, 6000u);
}

TEST(ReceiveTuning, LimitBelowTheStartIsHonoured) {
  ConnectionConfig config = growing(true);
  config.receive_buffer_bytes = 10'000;
  Stream stream(config);
  for (int i = 0; i < 10; ++i) stream.round(millis(20), UINT32_MAX);
  EXPECT_LE(stream.peer.info().receive_window_bytes, 10'000u);
}

TEST(ReceiveTuning, EchoThatIsNoneIsNotBelieved) {
  Stream stream(growing(true));
  stream.echo = 12345;
  stream.round(millis(20), 3000);
  stream.echo = 0xffffffffu;
  stream.round(millis(20), 3000);
  for (int i = 0; i < 12; ++i) stream.round(millis(20), UINT32_MAX);
  EXPECT_GT(stream.window, 600'000u);
}

}  // namespace
}  // namespace lyre::tcp
