#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <utility>

#include "tests/conformance/scenario.h"

namespace lyre::conformance {
namespace {

TEST(ZeroWindow, ProbesBackOffAndReopeningEndsThem) {  // RFC 9293 3.8.6.1
  Scenario s;
  s.establish_passive();
  s.write(1000);
  s.expect(kAck);
  s.send({.flags = kAck, .seq = 1, .ack = 1001, .window = 0});
  s.write(3000);
  s.expect_silence();
  Nanos last = s.host.now();
  Nanos gap{0};
  for (int i = 0; i < 5; ++i) {
    const Seg probe = s.expect_later(kAck);
    EXPECT_EQ(probe.bytes, 0u);
    EXPECT_EQ(probe.seq, 1000u);
    EXPECT_GT(probe.at - last, gap);
    gap = probe.at - last;
    last = probe.at;
    s.send({.flags = kAck, .seq = 1, .ack = 1001, .window = 0});
  }
  s.send({.flags = kAck, .seq = 1, .ack = 1001, .window = 5000});
  EXPECT_EQ(s.expect(kAck).seq, 1001u);
}

TEST(ZeroWindow, AnsweredProbesKeepItAliveForEver) {  // RFC 9293 3.8.6.1
  StackOptions options = Scenario::plain();
  options.connection.user_timeout_ms = 30'000;
  Scenario s(options);
  s.establish_passive();
  s.write(1000);
  s.expect(kAck);
  s.send({.flags = kAck, .seq = 1, .ack = 1001, .window = 0});
  s.write(1000);
  for (int i = 0; i < 40; ++i) {
    s.expect_later(kAck);
    s.send({.flags = kAck, .seq = 1, .ack = 1001, .window = 0});
  }
  EXPECT_EQ(s.state(), tcp::State::kEstablished);
}

TEST(ZeroWindow, UnansweredProbesEndIt) {  // RFC 9293 3.8.3
  StackOptions options = Scenario::plain();
  options.connection.user_timeout_ms = 30'000;
  Scenario s(options);
  s.establish_passive();
  s.write(1000);
  s.expect(kAck);
  s.send({.flags = kAck, .seq = 1, .ack = 1001, .window = 0});
  s.write(1000);
  s.wait(seconds(120));
  EXPECT_EQ(s.error(), ETIMEDOUT);
}

TEST(Window, ShrinkingPeerGetsNothingBeyondIt) {  // RFC 9293 3.8.6: be robust
  Scenario s;
  s.establish_passive(Scenario::offered(), 10000);
  s.write(20000);
  uint32_t sent = 0;
  for (const Seg& segment : s.all()) sent += segment.bytes;
  EXPECT_EQ(sent, 10000u);
  s.send({.flags = kAck, .seq = 1, .ack = 2001, .window = 4000});  // right edge moved left
  s.expect_silence();
  s.send({.flags = kAck, .seq = 1, .ack = 10001, .window = 2000});
  sent = 0;
  for (const Seg& segment : s.all()) sent += segment.bytes;
  EXPECT_EQ(sent, 2000u);
}

/// A connection whose window the stack scales by `scale`, before the peer has sent text. Returns
/// the right edge that the SYN,ACK tells.
uint32_t establish_scaled(Scenario& s, uint8_t scale) {
  wire::TcpOptions offer = Scenario::offered();
  if (scale > 0) offer.window_scale = 2;
  s.listen();
  s.send({.flags = kSyn, .options = offer});
  const Seg answer = s.expect(kSyn | kAck);
  EXPECT_EQ(answer.options.window_scale.value_or(0), scale);
  s.send({.flags = kAck, .seq = 1, .ack = 1});
  EXPECT_GE(s.accept(), 0);
  return answer.ack + answer.window;
}

struct Reading {
  uint8_t scale;
  uint32_t buffer_bytes;
  uint32_t segment_bytes;
  uint32_t every_segments;  ///< the program reads after so many
};

void expect_window_is_kept(const Reading& reading) {
  StackOptions options = Scenario::plain();
  options.connection.window_scaling = reading.scale > 0;
  options.connection.receive_buffer_bytes = reading.buffer_bytes;
  options.connection.receive_buffer_start_bytes = std::min(reading.buffer_bytes, 64'000u);
  Scenario s(options);
  uint32_t edge = establish_scaled(s, reading.scale);
  uint32_t next = 1;
  uint32_t told_count = 0;
  for (uint32_t i = 1; i <= 200; ++i) {
    s.send({.flags = kAck | kPsh, .seq = next, .ack = 1, .bytes = reading.segment_bytes});
    next += reading.segment_bytes;
    if (i % reading.every_segments == 0) s.read();
    for (const Seg& segment : s.all()) {
      if (segment.ack < next) continue;  // this text found no room: below
      const uint32_t told = segment.ack + (uint32_t{segment.window} << reading.scale);
      EXPECT_GE(told, edge) << i;
      edge = told;
      ++told_count;
    }
  }
  EXPECT_GT(told_count, 10u);
}

TEST(Window, NeverTakenBack) {  // RFC 9293 3.8.6: SHOULD NOT shrink; RFC 7323 2.4
  constexpr std::pair<uint8_t, uint32_t> kScaleAndBuffer[] = {
      {0, 8'000}, {7, 4u << 20}, {14, 1u << 29}};
  for (const auto& [scale, buffer_bytes] : kScaleAndBuffer) {
    for (const uint32_t segment_bytes : {1u, 10u, 1001u}) {
      SCOPED_TRACE(testing::Message() << "scale " << int{scale} << ", " << segment_bytes);
      expect_window_is_kept({scale, buffer_bytes, segment_bytes, 5});
    }
  }
}

/// Nothing is read: small segments fill the buffer before the window is used up.
TEST(Window, NeverTakenBackFromAFullBuffer) {  // RFC 9293 3.8.6: SHOULD NOT shrink
  expect_window_is_kept({0, 8'000, 1, UINT32_MAX});
}

/// Small segments fill the buffer before the window is used up.
TEST(Window, IsToldAsZeroWhereTextInItFindsNoRoom) {  // RFC 9293 3.8.6
  StackOptions options = Scenario::plain();
  options.connection.receive_buffer_bytes = 8000;
  Scenario s(options);
  s.establish_passive();
  uint32_t next = 1;
  Seg last;
  while (last.window > 0 && next < 200) {
    s.send({.flags = kAck | kPsh, .seq = next++, .ack = 1, .bytes = 1});
    for (const Seg& segment : s.all()) last = segment;
  }
  EXPECT_EQ(last.window, 0);
  EXPECT_EQ(last.ack, next - 1) << "the last byte was refused";
  s.read(next - 2);
  EXPECT_GT(s.expect(kAck).window, 0);
  s.send({.flags = kAck | kPsh, .seq = last.ack, .ack = 1, .bytes = 1});
  EXPECT_EQ(s.expect_later(kAck).ack, last.ack + 1);
}

TEST(SillyWindow, SmallOpeningsAreNotAnnounced) {  // RFC 9293 3.8.6.2.2
  StackOptions options = Scenario::plain();
  options.connection.receive_buffer_bytes = 8000;
  Scenario s(options);
  s.establish_passive();
  for (uint32_t at = 1; at < 8001; at += 1000) {
    s.send({.flags = kAck | kPsh, .seq = at, .ack = 1, .bytes = 1000});
  }
  s.all();
  s.read(100);
  s.read(100);
  s.expect_silence();
  s.read(4000);
  EXPECT_GE(s.expect(kAck).window, 2000);
}

TEST(SillyWindow, SmallOfferIsNotUsedUp) {  // RFC 9293 3.8.6.2.1
  Scenario s;
  s.establish_passive(Scenario::offered(), 5000);
  s.write(5000);
  s.all();
  s.write(5000);
  s.send({.flags = kAck, .seq = 1, .ack = 5001, .window = 300});
  s.expect_silence();
  s.send({.flags = kAck, .seq = 1, .ack = 5001, .window = 1000});
  EXPECT_EQ(s.expect(kAck).bytes, 1000u);
}

TEST(Nagle, HoldsSmallPiecesWhileSomethingIsOut) {  // RFC 9293 3.7.4
  Scenario s;
  s.establish_passive();
  s.write(10);
  EXPECT_EQ(s.expect(kAck).bytes, 10u);
  s.write(10);
  s.write(10);
  s.expect_silence();
  s.send({.flags = kAck, .seq = 1, .ack = 11});
  EXPECT_EQ(s.expect(kAck).bytes, 20u);
}

TEST(Nagle, CanBeTurnedOffAndThenSendsAtOnce) {  // RFC 9293 3.7.4: MUST be possible
  Scenario s;
  s.establish_passive();
  s.write(10);
  s.expect(kAck);
  s.write(10);
  s.expect_silence();
  s.set(IPPROTO_TCP, TCP_NODELAY, 1);
  EXPECT_EQ(s.expect(kAck).bytes, 10u);
  s.write(10);
  EXPECT_EQ(s.expect(kAck).bytes, 10u);
}

TEST(Cork, HoldsUntilFullOrPulled) {  // RFC 9293 3.7.4: as SEND without PUSH
  Scenario s;
  s.establish_passive();
  s.set(IPPROTO_TCP, TCP_CORK, 1);
  s.write(600);
  s.expect_silence();
  s.write(600);
  EXPECT_EQ(s.expect(kAck).bytes, 1000u);
  s.expect_silence();
  s.set(IPPROTO_TCP, TCP_CORK, 0);
  const Seg rest = s.expect(kAck);
  EXPECT_EQ(rest.bytes, 200u);
  EXPECT_NE(rest.flags & kPsh, 0);
}

TEST(Cork, DoesNotHoldForEver) {
  Scenario s;
  s.establish_passive();
  s.set(IPPROTO_TCP, TCP_CORK, 1);
  s.write(10);
  const Nanos start = s.host.now();
  const Seg late = s.expect_later(kAck);
  EXPECT_EQ(late.bytes, 10u);
  EXPECT_LE(late.at - start, millis(500));
}

TEST(Push, MarksTheEndOfAWriteUnlessMoreFollows) {  // RFC 9293 3.9.1.2
  Scenario s;
  s.establish_passive();
  s.set(IPPROTO_TCP, TCP_NODELAY, 1);
  s.write(2500);
  const auto first = s.all();
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(first[0].flags & kPsh, 0);
  EXPECT_NE(first[2].flags & kPsh, 0);
  s.send({.flags = kAck, .seq = 1, .ack = 2501});
  s.write(500, MSG_MORE);
  s.expect_silence();
  s.write(500);
  const Seg second = s.expect(kAck);
  EXPECT_EQ(second.bytes, 1000u);
  EXPECT_NE(second.flags & kPsh, 0);
}

TEST(SendBuffer, IsAMarkThatWholeChunksMayPass) {  // RFC 9293 3.9.1.2 leaves buffers open; Linux's
  Scenario s;
  s.establish_passive(Scenario::offered(), 50000);
  s.set(SOL_SOCKET, SO_SNDBUF, 21000);
  EXPECT_EQ(s.write(100000), 60000);
  EXPECT_EQ(s.write(1), -EAGAIN);
}

TEST(Overrun, LoneSegmentBeyondTheWindowIsKeptWhole) {  // RFC 9293 3.10.7.4 allows to trim it
  StackOptions options = Scenario::plain();
  options.connection.receive_buffer_bytes = 4000;
  Scenario s(options);
  s.establish_passive();
  s.send({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 6000});
  EXPECT_EQ(s.read(), 6000);
}

}  // namespace
}  // namespace lyre::conformance
