#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "tests/conformance/scenario.h"

namespace lyre::conformance {
namespace {

StackOptions with_scaling() {
  StackOptions options = Scenario::plain();
  options.connection.window_scaling = true;
  options.connection.receive_buffer_bytes = 4 << 20;
  options.connection.receive_buffer_start_bytes = 1 << 20;
  return options;
}

wire::TcpOptions offer_scale(uint8_t scale) {
  wire::TcpOptions options = Scenario::offered();
  options.window_scale = scale;
  return options;
}

TEST(WindowScale, CountsFromTheSegmentAfterTheSyn) {  // RFC 7323 2.2
  Scenario s(with_scaling());
  s.connect();
  const Seg syn = s.expect(kSyn);
  EXPECT_EQ(syn.window, 65535);
  EXPECT_EQ(syn.options.window_scale, 7);
  s.send({.flags = kSyn | kAck, .ack = 1, .window = 3000, .options = offer_scale(2)});
  EXPECT_GT(uint32_t{s.expect(kAck).window} << 7, 65535u);
  s.write(20000);
  EXPECT_EQ(s.all().size(), 3u) << "the window of a SYN means what it says";
  s.send({.flags = kAck, .seq = 1, .ack = 3001, .window = 3000});
  EXPECT_EQ(s.info().send_window_bytes, 12000u);
}

TEST(WindowScale, IsForBothOrNobody) {  // RFC 7323 2.2
  Scenario s(with_scaling());
  s.listen();
  s.send({.flags = kSyn, .options = Scenario::offered()});
  EXPECT_FALSE(s.expect(kSyn | kAck).options.window_scale);
  s.send({.flags = kAck, .seq = 1, .ack = 1, .window = 3000});
  ASSERT_GE(s.accept(), 0);
  EXPECT_EQ(s.info().send_window_bytes, 3000u);
  s.send({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 1000});
  EXPECT_GT(s.expect(kAck).window, 60000) << "as it is";
}

TEST(Timestamps, EchoMeasuresARetransmissionThatIsAcknowledged) {  // RFC 7323 4.1
  Scenario s(Scenario::with_timestamps());
  s.establish_passive(stamp(1, 0, Scenario::offered()));
  s.write(900);
  s.expect(kAck);
  const Seg again = s.expect_later(kAck);  // the tail probe
  const Nanos srtt = s.info().srtt;
  s.wait(millis(500));
  s.send({.flags = kAck, .seq = 1, .ack = 1, .options = stamp(100, again.options.ts_value)});
  EXPECT_EQ(s.info().srtt, srtt) << "nothing new is acknowledged";
  s.send({.flags = kAck,
          .seq = 1,
          .ack = again.seq + again.bytes,
          .options = stamp(100, again.options.ts_value)});
  EXPECT_GT(s.info().srtt, srtt + millis(40)) << "an eighth of the half second";
}

/// The next segment of the stack, which carries a timestamp.
Seg expect_stamped(Scenario& s, uint8_t flags) {
  const Seg segment = s.expect_later(flags);
  EXPECT_TRUE(segment.options.has_timestamps) << to_string(segment);
  return segment;
}

/// Timestamps.ResetCarriesOne has the resets.
TEST(Timestamps, EverySegmentButResetsCarriesOne) {  // RFC 7323 3.2
  Scenario s(Scenario::with_timestamps());
  s.establish_passive(stamp(1, 0, Scenario::offered()));
  s.write(900);
  expect_stamped(s, kAck);  // the text, its tail probe, and its retransmission
  EXPECT_EQ(expect_stamped(s, kAck).bytes, 900u);
  const Seg third = expect_stamped(s, kAck);
  EXPECT_EQ(third.bytes, 900u);
  const uint32_t echo = third.options.ts_value;
  s.send({.flags = kAck, .seq = 1, .ack = 901, .window = 0, .options = stamp(100, echo)});
  s.write(900);
  EXPECT_EQ(expect_stamped(s, kAck).bytes, 0u) << "a window probe";
  s.send({.flags = kAck, .seq = 1, .ack = 901, .options = stamp(200, echo)});
  EXPECT_EQ(expect_stamped(s, kAck).bytes, 900u);
  s.send({.flags = kAck | kPsh, .seq = 1, .ack = 1801, .bytes = 100, .options = stamp(300, echo)});
  EXPECT_EQ(expect_stamped(s, kAck).ack, 101u);
  s.send({.flags = kSyn, .seq = 101, .options = stamp(400, echo)});
  EXPECT_EQ(expect_stamped(s, kAck).ack, 101u) << "a challenge ACK";
  s.set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  s.set(SOL_SOCKET, SO_KEEPALIVE, 1);
  EXPECT_EQ(expect_stamped(s, kAck).seq, 1800u) << "a keep-alive probe";
  s.send({.flags = kAck, .seq = 101, .ack = 1801, .options = stamp(500, echo)});
  EXPECT_EQ(s.read(), 100);
  s.close();
  expect_stamped(s, kFin | kAck);
  expect_stamped(s, kFin | kAck);  // again
}

TEST(Dsack, OnlyThePartThatCameTwiceIsReported) {  // RFC 2883 4.2
  Scenario s;
  s.establish_passive();
  s.send({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 100});
  s.all();
  s.send({.flags = kAck | kPsh, .seq = 51, .ack = 1, .bytes = 100});
  const Seg answer = s.expect(kAck);
  EXPECT_EQ(answer.ack, 151u);
  ASSERT_EQ(answer.options.sack_count, 1);
  EXPECT_EQ(answer.options.sacks[0].start.raw(), 51u);
  EXPECT_EQ(answer.options.sacks[0].end.raw(), 101u);
}

}  // namespace
}  // namespace lyre::conformance
