#include <netinet/in.h>
#include <netinet/tcp.h>

#include "tests/conformance/scenario.h"

namespace lyre::conformance {
namespace {

TEST(Closing, HalfCloseGoesOnReading) {  // RFC 9293 3.6 figure 12
  Scenario s;
  s.establish_passive();
  EXPECT_EQ(s.sockets.shutdown(s.socket, SHUT_WR), 0);
  s.expect(kFin | kAck);
  s.send({.flags = kAck, .seq = 1, .ack = 2});
  s.send({.flags = kAck | kPsh, .seq = 1, .ack = 2, .bytes = 100});
  EXPECT_EQ(s.expect(kAck).ack, 101u);
  EXPECT_EQ(s.read(), 100);
  EXPECT_EQ(s.write(1), -EPIPE);  // RFC 9293 3.10.2
}

TEST(Closing, SimultaneousCloseResendsItsFin) {  // RFC 9293 3.6 figure 13, 3.10.7.4
  Scenario s;
  s.establish_passive();
  s.close();
  s.expect(kFin | kAck);
  s.send({.flags = kFin | kAck, .seq = 1, .ack = 1});  // ours is not acknowledged
  EXPECT_EQ(s.expect(kAck).ack, 2u);
  EXPECT_EQ(s.state(), tcp::State::kClosing);
  EXPECT_EQ(s.expect_later(kFin | kAck).seq, 1u);
  s.send({.flags = kAck, .seq = 2, .ack = 2});
  EXPECT_EQ(s.state(), tcp::State::kTimeWait);
}

TEST(Closing, PassiveCloseEndsWithTheLastAck) {  // RFC 9293 3.6
  Scenario s;
  s.establish_passive();
  s.send({.flags = kFin | kAck, .seq = 1, .ack = 1});
  EXPECT_EQ(s.expect(kAck).ack, 2u);
  EXPECT_EQ(s.read(), 0);
  s.close();
  s.expect(kFin | kAck);
  s.send({.flags = kAck, .seq = 2, .ack = 2});
  EXPECT_EQ(s.host.engine().connection_count(), 0u);
}

TEST(Closing, TimeWaitAnswersAFinAndStartsAnew) {  // RFC 9293 3.10.7.4, 3.4.2
  StackOptions options = Scenario::plain();
  options.connection.time_wait_ms = 60'000;
  Scenario s(options);
  s.establish_passive();
  s.close();
  s.expect(kFin | kAck);
  s.send({.flags = kFin | kAck, .seq = 1, .ack = 2});
  s.expect(kAck);
  s.wait(seconds(50));
  s.send({.flags = kFin | kAck, .seq = 1, .ack = 2});
  s.expect(kAck);
  s.wait(seconds(50));
  EXPECT_EQ(s.state(), tcp::State::kTimeWait);
  s.wait(seconds(11));
  EXPECT_EQ(s.host.engine().connection_count(), 0u);
}

/// Brings a connection of `s` into TIME-WAIT; the listener stays open.
void reach_time_wait(Scenario& s) {
  s.establish_passive();
  s.close();
  s.expect(kFin | kAck);
  s.send({.flags = kFin | kAck, .seq = 1, .ack = 2});
  s.expect(kAck);
}

TEST(TimeWait, NewerSynTakesThePlace) {  // RFC 1122 4.2.2.13, RFC 6191 2
  Scenario s;
  reach_time_wait(s);
  const SeqNum used_up_to = s.own_iss + 2;
  s.send({.flags = kSyn, .seq = 100000, .options = Scenario::offered()});
  EXPECT_EQ(s.expect(kSyn | kAck).ack, 100001u);
  EXPECT_TRUE(s.own_iss.after(used_up_to));
  s.send({.flags = kAck, .seq = 100001, .ack = 1});
  EXPECT_GE(s.accept(), 0);
}

TEST(TimeWait, OldSynDoesNot) {  // RFC 6191 2, RFC 5961 4.2
  Scenario s;
  reach_time_wait(s);
  s.send({.flags = kSyn, .seq = 1, .options = Scenario::offered()});
  s.expect(kAck);
  EXPECT_EQ(s.state(), tcp::State::kTimeWait);
}

TEST(TimeWait, AnswersWhatDoesNotBelongToItsEnd) {  // RFC 9293 3.10.7.4, fifth and seventh
  Scenario s;
  reach_time_wait(s);
  s.send({.flags = kAck | kPsh, .seq = 2, .ack = 2, .bytes = 10});
  EXPECT_EQ(s.expect(kAck).ack, 2u);
  s.send({.flags = kAck, .seq = 100, .ack = 2});
  EXPECT_EQ(s.expect(kAck).ack, 2u);
  s.send({.flags = kAck, .seq = 2, .ack = 100});
  EXPECT_EQ(s.expect(kAck).ack, 2u);
  s.send({.flags = kAck, .seq = 2, .ack = 2});
  s.expect_silence();
  EXPECT_EQ(s.state(), tcp::State::kTimeWait);
}

TEST(TimeWait, TimestampDecidesBeforeTheNumber) {  // RFC 6191 2
  Scenario s(Scenario::with_timestamps());
  wire::TcpOptions offer = stamp(1000, 0, Scenario::offered());
  s.establish_passive(offer);
  s.close();
  s.expect(kFin | kAck);
  s.send({.flags = kFin | kAck, .seq = 1, .ack = 2, .options = stamp(1020)});
  s.expect(kAck);
  offer.ts_value = 1010;
  s.send({.flags = kSyn, .seq = 100000, .options = offer});
  s.expect(kAck);
  offer.ts_value = 1021;
  s.send({.flags = kSyn, .seq = 0, .options = offer});
  s.expect(kSyn | kAck);
}

TEST(Closing, OrphanDoesNotWaitForEver) {  // RFC 9293 3.6: a peer that never says its FIN
  Scenario s;
  s.establish_passive();
  s.set(IPPROTO_TCP, TCP_LINGER2, 3);
  s.close();
  s.expect(kFin | kAck);
  s.send({.flags = kAck, .seq = 1, .ack = 2});
  s.wait(seconds(2));
  EXPECT_EQ(s.host.engine().connection_count(), 1u);
  s.wait(seconds(2));
  EXPECT_EQ(s.host.engine().connection_count(), 0u);
  s.send({.flags = kAck, .seq = 1, .ack = 2});
  EXPECT_EQ(s.expect(kRst).seq, 2u);
}

TEST(Closing, TextAfterCloseIsReset) {  // RFC 9293 3.6.1
  Scenario s;
  s.establish_passive();
  s.close();
  s.expect(kFin | kAck);
  s.send({.flags = kAck | kPsh, .seq = 1, .ack = 2, .bytes = 10});
  EXPECT_EQ(s.expect(kRst).seq, 2u);
  EXPECT_EQ(s.host.engine().connection_count(), 0u);
  EXPECT_EQ(s.drops(Drop::kTcpAfterClose), 1u);
}

TEST(Closing, ResetForTextAfterCloseFollowsTheAckOfTheFin) {  // RFC 9293 3.6.1
  Scenario s;
  s.establish_passive();
  s.close();
  s.expect(kFin | kAck);
  s.send({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 10});
  s.expect_silence();
  s.send({.flags = kAck, .seq = 11, .ack = 2});
  EXPECT_EQ(s.expect(kRst).seq, 2u);
  EXPECT_EQ(s.host.engine().connection_count(), 0u);
}

TEST(Closing, UnreadTextTurnsCloseIntoReset) {  // RFC 9293 3.6.1, RFC 2525 2.17
  Scenario s;
  s.establish_passive();
  s.send({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 10});
  s.expect(kAck);
  s.close();
  EXPECT_EQ(s.expect(kRst | kAck).seq, 1u);
}

struct LingerCase {
  bool is_on;
  int seconds;
  size_t unsent_bytes;
  uint8_t expected;
};

class Linger : public testing::TestWithParam<LingerCase> {};

/// RFC 9293 3.9.1.5 and 3.9.1.6: only a linger of zero makes CLOSE an ABORT.
TEST_P(Linger, DecidesHowCloseEnds) {
  Scenario s;
  s.establish_passive(Scenario::offered(), 100);
  if (GetParam().unsent_bytes > 0) s.write(GetParam().unsent_bytes);
  s.all();
  const linger value{.l_onoff = GetParam().is_on, .l_linger = GetParam().seconds};
  ASSERT_EQ(s.sockets.set_option(s.socket, SOL_SOCKET, SO_LINGER, &value, sizeof value), 0);
  s.close();
  if (GetParam().expected == 0) {
    s.expect_silence();
  } else {
    s.expect(GetParam().expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Matrix, Linger,
                         testing::Values(LingerCase{false, 0, 0, kFin | kAck},
                                         LingerCase{true, 5, 0, kFin | kAck},
                                         LingerCase{true, 0, 0, kRst | kAck},
                                         LingerCase{false, 0, 500, 0},
                                         LingerCase{true, 0, 500, kRst | kAck}));

TEST(Closing, CloseInSynSentIsQuiet) {  // RFC 9293 3.10.4, SYN-SENT
  Scenario s;
  s.connect();
  s.expect(kSyn);
  s.close();
  s.expect_silence();
  s.send({.flags = kSyn | kAck, .ack = 1, .options = Scenario::offered()});
  EXPECT_EQ(s.expect(kRst).seq, 1u);
}

TEST(Closing, FinOutOfOrderWaitsForTheText) {  // RFC 9293 3.10.7.4, eighth
  Scenario s;
  s.establish_passive();
  s.send({.flags = kFin | kAck, .seq = 101, .ack = 1});
  EXPECT_EQ(s.expect(kAck).ack, 1u);
  s.send({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 100});
  EXPECT_EQ(s.expect(kAck).ack, 102u);
  EXPECT_EQ(s.read(), 100);
  EXPECT_EQ(s.read(), 0);
}

TEST(Closing, FinIsTakenThroughAClosedWindow) {  // RFC 9293 3.10.7.4: it needs no room
  StackOptions options = Scenario::plain();
  options.connection.receive_buffer_bytes = 4000;
  Scenario s(options);
  s.establish_passive();
  for (uint32_t at = 1; at < 4001; at += 1000) {
    s.send({.flags = kAck | kPsh, .seq = at, .ack = 1, .bytes = 1000});
  }
  const auto acks = s.all();
  ASSERT_FALSE(acks.empty());
  ASSERT_EQ(acks.back().window, 0);
  s.send({.flags = kFin | kAck, .seq = 4001, .ack = 1});
  EXPECT_EQ(s.expect(kAck).ack, 4002u);
}

}  // namespace
}  // namespace lyre::conformance
