#include <netinet/in.h>
#include <netinet/tcp.h>

#include "tests/conformance/scenario.h"

namespace lyre::conformance {
namespace {

/// Up to a quarter of the user timeout. Without SACK no tail probe comes between.
TEST(Rto, BacksOffAndFollowsKarn) {  // RFC 6298 2.5, 3, 5.5
  StackOptions options = Scenario::plain();
  options.connection.sack = false;
  options.connection.user_timeout_ms = 20'000;
  const Nanos limit = millis(options.connection.user_timeout_ms / 4 + 1);
  Scenario s(options);
  s.establish_passive();
  const Nanos rto = s.info().rto;
  s.write(1000);
  Nanos last = s.expect(kAck).at;
  Nanos wait{0};
  for (int i = 0; i < 6; ++i) {
    const Seg again = s.expect_later(kAck);
    EXPECT_EQ(again.seq, 1u);
    EXPECT_EQ(again.at - last, i == 0 ? rto : earlier(wait * 2, limit)) << i;
    wait = again.at - last;
    last = again.at;
  }
  EXPECT_EQ(wait, limit);
  const Nanos srtt = s.info().srtt;
  s.send({.flags = kAck, .seq = 1, .ack = 1001});
  EXPECT_EQ(s.info().srtt, srtt) << "Karn: the ACK of a retransmission measures nothing";
}

TEST(UserTimeout, EndsAConnectionThatNobodyAnswers) {  // RFC 9293 3.8.3, RFC 5482 2
  Scenario s;
  s.establish_passive();
  s.set(IPPROTO_TCP, TCP_USER_TIMEOUT, 3000);
  s.write(1000);
  s.wait(millis(2900));
  EXPECT_EQ(s.error(), 0);
  s.wait(millis(200));
  EXPECT_EQ(s.error(), ETIMEDOUT);
}

TEST(UserTimeout, MayChangeWhileItRuns) {  // RFC 5482 2.1
  Scenario s;
  s.establish_passive();
  s.write(1000);
  s.wait(seconds(2));
  s.set(IPPROTO_TCP, TCP_USER_TIMEOUT, 3000);
  s.wait(millis(900));
  EXPECT_EQ(s.error(), 0);
  s.wait(millis(200));
  EXPECT_EQ(s.error(), ETIMEDOUT);
}

void keep_alive(Scenario& s) {
  s.set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  s.set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  s.set(IPPROTO_TCP, TCP_KEEPCNT, 2);
  s.set(SOL_SOCKET, SO_KEEPALIVE, 1);
}

TEST(Keepalive, ProbesASilentPeerAndGivesUp) {  // RFC 9293 3.8.4
  Scenario s;
  s.establish_passive();
  const Nanos start = s.host.now();
  keep_alive(s);
  const Seg probe = s.expect_later(kAck);
  EXPECT_EQ(probe.seq, 0u);
  EXPECT_EQ(probe.bytes, 0u);
  EXPECT_EQ(probe.at - start, seconds(5));
  EXPECT_EQ(s.expect_later(kAck).at - start, seconds(7));
  EXPECT_EQ(s.expect_later(kRst | kAck).at - start, seconds(9));
  EXPECT_EQ(s.error(), ETIMEDOUT);
}

TEST(Keepalive, AnswerStartsItAnewAndOffIsOff) {  // RFC 9293 3.8.4: MUST be off unless asked for
  Scenario s;
  s.establish_passive();
  s.wait(seconds(10 * 3600));
  s.expect_silence();
  keep_alive(s);
  s.expect_later(kAck);
  s.send({.flags = kAck, .seq = 1, .ack = 1});
  const Nanos answered = s.host.now();
  EXPECT_EQ(s.expect_later(kAck).at - answered, seconds(5));
  s.set(SOL_SOCKET, SO_KEEPALIVE, 0);
  s.wait(seconds(3600));
  s.expect_silence();
  EXPECT_EQ(s.error(), 0);
}

TEST(DelayedAck, ComesWithinItsTimeAndForEverySecondSegment) {  // RFC 9293 3.8.6.3
  StackOptions options = Scenario::plain();
  options.connection.quick_acks_at_start = 0;
  Scenario s(options);
  s.establish_passive();
  s.send({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 1000});
  s.expect_silence();
  const Nanos start = s.host.now();
  EXPECT_LE(s.expect_later(kAck).at - start, millis(500));
  s.send({.flags = kAck, .seq = 1001, .ack = 1, .bytes = 1000});
  s.expect_silence();
  s.send({.flags = kAck, .seq = 2001, .ack = 1, .bytes = 1000});
  EXPECT_EQ(s.expect(kAck).ack, 3001u);
}

TEST(DelayedAck, TextOutOfOrderIsAnsweredAtOnce) {  // RFC 5681 4.2
  Scenario s;
  s.establish_passive();
  s.send({.flags = kAck | kPsh, .seq = 1001, .ack = 1, .bytes = 1000});
  const Seg duplicate = s.expect(kAck);
  EXPECT_EQ(duplicate.ack, 1u);
  ASSERT_EQ(duplicate.options.sack_count, 1);
  EXPECT_EQ(duplicate.options.sacks[0].start.raw(), 1001u);
  s.send({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 1000});
  EXPECT_EQ(s.expect(kAck).ack, 2001u);
}

TEST(Dsack, RepeatIsReportedWithItsBlock) {  // RFC 2883 4, RFC 2018 4
  Scenario s;
  s.establish_passive();
  s.send({.flags = kAck | kPsh, .seq = 200, .ack = 1, .bytes = 100});
  s.send({.flags = kAck | kPsh, .seq = 400, .ack = 1, .bytes = 100});
  s.all();
  s.send({.flags = kAck | kPsh, .seq = 220, .ack = 1, .bytes = 50});
  const Seg answer = s.expect(kAck);
  ASSERT_EQ(answer.options.sack_count, 3);
  EXPECT_EQ(answer.options.sacks[0].start.raw(), 220u);
  EXPECT_EQ(answer.options.sacks[0].end.raw(), 270u);
  EXPECT_EQ(answer.options.sacks[1].start.raw(), 200u);
  EXPECT_EQ(answer.options.sacks[2].start.raw(), 400u);
}

StackOptions with_ecn() {
  StackOptions options = Scenario::plain();
  options.connection.ecn = tcp::EcnMode::kAccept;
  return options;
}

using Ecn = OverBoth;
INSTANTIATE_OVER_BOTH(Ecn);

TEST_P(Ecn, MarkIsEchoedUntilTheSenderHasReduced) {  // RFC 3168 6.1.3
  Scenario s(with_ecn(), GetParam());
  s.listen();
  s.send({.flags = kSyn | kEce | kCwr, .options = Scenario::offered()});
  s.expect(kSyn | kAck | kEce);
  s.send({.flags = kAck, .seq = 1, .ack = 1});
  ASSERT_GE(s.accept(), 0);
  s.send({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 1000, .ecn = wire::Ecn::kCe});
  s.expect(kAck | kEce);
  s.send({.flags = kAck | kPsh, .seq = 1001, .ack = 1, .bytes = 1000, .ecn = wire::Ecn::kEct0});
  s.expect(kAck | kEce);
  s.send(
      {.flags = kAck | kPsh | kCwr, .seq = 2001, .ack = 1, .bytes = 1000, .ecn = wire::Ecn::kEct0});
  s.expect(kAck);
}

TEST_P(Ecn, EchoHalvesOnceAndIsConfirmed) {  // RFC 3168 6.1.2
  Scenario s(with_ecn(), GetParam());
  s.listen();
  s.send({.flags = kSyn | kEce | kCwr, .options = Scenario::offered()});
  s.expect(kSyn | kAck | kEce);
  s.send({.flags = kAck, .seq = 1, .ack = 1});
  ASSERT_GE(s.accept(), 0);
  s.write(20000);
  const auto flight = s.all();
  ASSERT_FALSE(flight.empty());
  EXPECT_EQ(flight[0].ecn, wire::Ecn::kEct0);
  const uint32_t before = s.info().cwnd_bytes;
  s.send({.flags = kAck | kEce, .seq = 1, .ack = 5001});
  s.send({.flags = kAck | kEce, .seq = 1, .ack = 10001});
  bool is_confirmed = false;
  for (const Seg& segment : s.all()) is_confirmed = is_confirmed || (segment.flags & kCwr) != 0;
  EXPECT_TRUE(is_confirmed);
  EXPECT_LT(s.info().ssthresh_bytes, before);
}

}  // namespace
}  // namespace lyre::conformance
