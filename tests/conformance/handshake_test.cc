#include <netinet/in.h>
#include <netinet/tcp.h>

#include <array>

#include "tests/conformance/scenario.h"

namespace lyre::conformance {
namespace {

using Handshake = OverBoth;
INSTANTIATE_OVER_BOTH(Handshake);

TEST_P(Handshake, ActiveOpen) {  // RFC 9293 3.10.1, 3.5 figure 6
  Scenario s(GetParam());
  s.establish_active();
  EXPECT_EQ(s.state(), tcp::State::kEstablished);
}

TEST_P(Handshake, SimultaneousOpen) {  // RFC 9293 3.5 figure 7
  Scenario s(GetParam());
  s.connect();
  s.expect(kSyn);
  s.send({.flags = kSyn, .options = Scenario::offered()});
  EXPECT_EQ(s.expect(kSyn | kAck).ack, 1u);
  s.send({.flags = kSyn | kAck, .ack = 1, .options = Scenario::offered()});
  s.expect(kAck);
  EXPECT_EQ(s.state(), tcp::State::kEstablished);
}

TEST_P(Handshake, ResetOfSimultaneousOpenIsARefusal) {  // RFC 9293 3.10.7.4, second
  Scenario s(GetParam());
  s.connect();
  s.expect(kSyn);
  s.send({.flags = kSyn, .options = Scenario::offered()});
  s.expect(kSyn | kAck);
  s.send({.flags = kRst, .seq = 1});
  EXPECT_EQ(s.error(), ECONNREFUSED);
}

TEST_P(Handshake, SynIsSentAgainAtDoublingTimes) {  // RFC 6298 2.1, 5.5
  Scenario s(GetParam());
  s.connect();
  const Nanos first = s.expect(kSyn).at;
  EXPECT_EQ(s.expect_later(kSyn).at - first, seconds(1));
  EXPECT_EQ(s.expect_later(kSyn).at - first, seconds(3));
  EXPECT_EQ(s.expect_later(kSyn).at - first, seconds(7));
}

TEST_P(Handshake, WrongAckInSynSentIsReset) {  // RFC 9293 3.10.7.3, first
  Scenario s(GetParam());
  s.connect();
  s.expect(kSyn);
  s.send({.flags = kSyn | kAck, .ack = 2, .options = Scenario::offered()});
  EXPECT_EQ(s.expect(kRst).seq, 2u);
  EXPECT_EQ(s.state(), tcp::State::kSynSent);
}

TEST_P(Handshake, TextInSynAckIsKept) {  // RFC 9293 3.10.7.3, fourth
  Scenario s(GetParam());
  s.connect();
  s.expect(kSyn);
  s.send({.flags = kSyn | kAck, .ack = 1, .bytes = 3, .options = Scenario::offered()});
  EXPECT_EQ(s.expect(kAck).ack, 4u);
  EXPECT_EQ(s.read(), 3);
}

TEST_P(Handshake, AckWithTextCompletesIt) {  // RFC 9293 3.10.7.4, fifth
  Scenario s(GetParam());
  s.listen();
  s.send({.flags = kSyn, .options = Scenario::offered()});
  s.expect(kSyn | kAck);
  s.send({.flags = kAck, .seq = 1, .ack = 1, .bytes = 4});
  EXPECT_EQ(s.expect(kAck).ack, 5u);
  ASSERT_GE(s.accept(), 0);
  EXPECT_EQ(s.read(), 4);
}

TEST_P(Handshake, ListenerAnswersStrangersByTheBook) {  // RFC 9293 3.10.7.2
  Scenario s(GetParam());
  s.listen();
  s.send({.flags = kAck, .seq = 7, .ack = 9});
  EXPECT_EQ(s.expect(kRst).seq, 9u);
  s.send({.flags = kSyn | kAck, .seq = 7, .ack = 9});
  EXPECT_EQ(s.expect(kRst).seq, 9u);
  s.send({.flags = kRst, .seq = 7});
  s.send({.flags = kRst | kSyn, .seq = 7});
  s.send({.flags = kFin, .seq = 7});
  s.send({.flags = 0, .seq = 7});
  s.expect_silence();
}

TEST_P(Handshake, PortWithoutListenerRefuses) {  // RFC 9293 3.10.7.1
  Scenario s(GetParam());
  s.send({.flags = kSyn, .seq = 0, .bytes = 5, .options = Scenario::offered()});
  const Seg reset = s.expect(kRst | kAck);
  EXPECT_EQ(reset.ack, 6u);
}

TEST_P(Handshake, ClosedListenerForgetsHandshakes) {  // RFC 9293 3.10.7.1
  Scenario s(GetParam());
  s.listen();
  s.send({.flags = kSyn, .options = Scenario::offered()});
  s.expect(kSyn | kAck);
  s.sockets.close(s.listener);
  s.send({.flags = kAck, .seq = 1, .ack = 1});
  EXPECT_EQ(s.expect(kRst).seq, 1u);
}

using Backlog = OverBoth;
INSTANTIATE_OVER_BOTH(Backlog);

TEST_P(Backlog, OverflowWithoutCookiesIsSilent) {  // RFC 9293 3.9.1.3 leaves it open
  StackOptions options = Scenario::plain();
  options.syn_cookies = SynCookies::kNever;
  Scenario s(options, GetParam());
  s.listen(0);
  s.send({.flags = kSyn, .options = Scenario::offered()});
  s.expect(kSyn | kAck);
  s.peer_port = 6666;
  s.send({.flags = kSyn, .options = Scenario::offered()});
  s.expect_silence();
  EXPECT_EQ(s.drops(Drop::kTcpBacklogFull), 1u);
}

/// Fills a backlog of one with a handshake that never completes; the next SYN is answered with a
/// cookie.
Seg cookie_under_flood(Scenario& s, const wire::TcpOptions& offer) {
  s.listen(0);
  s.send({.flags = kSyn, .options = Scenario::offered()});
  s.expect(kSyn | kAck);
  s.peer_port = 6666;
  s.send({.flags = kSyn, .options = offer});
  return s.expect(kSyn | kAck);
}

using SynCookie = OverBoth;
INSTANTIATE_OVER_BOTH(SynCookie);

TEST_P(SynCookie, HandshakeUnderFloodSucceeds) {  // RFC 4987 3.6
  Scenario s(GetParam());
  const Seg answer = cookie_under_flood(s, Scenario::offered());
  EXPECT_FALSE(answer.options.sack_permitted) << "nothing could remember it";
  const uint32_t before = s.host.engine().connection_count();
  s.wait(millis(10));
  s.send({.flags = kAck, .seq = 1, .ack = 1, .bytes = 10});
  EXPECT_EQ(s.host.engine().connection_count(), before + 1);
  ASSERT_GE(s.accept(), 0);
  EXPECT_EQ(s.read(), 10);
  EXPECT_EQ(s.info().mss_bytes, 536u) << "rounded down to what three bits can name";
}

TEST_P(SynCookie, TimestampCarriesTheOptions) {  // RFC 4987 3.6, RFC 7323 5.4
  StackOptions options = Scenario::with_timestamps();
  options.connection.window_scaling = true;
  Scenario s(options, GetParam());
  wire::TcpOptions offer = stamp(100, 0, Scenario::offered());
  offer.window_scale = 5;
  const Seg answer = cookie_under_flood(s, offer);
  EXPECT_TRUE(answer.options.sack_permitted && answer.options.window_scale.has_value());
  s.send({.flags = kAck,
          .seq = 1,
          .ack = 1,
          .window = 100,
          .options = stamp(110, answer.options.ts_value)});
  ASSERT_GE(s.accept(), 0);
  EXPECT_EQ(s.info().send_window_bytes, 100u << 5);
}

// Links of 8500, 8896 or 9001 bytes: their segments became 1460 bytes.
TEST_P(SynCookie, LargeSegmentsStayLarge) {  // RFC 4987 3.6
  StackOptions options = Scenario::plain();
  options.mtu_bytes = 9000;
  for (const uint16_t offered : std::to_array<uint16_t>({8440, 8460, 8856, 8941})) {
    Scenario s(options, GetParam());
    cookie_under_flood(s, Scenario::offered(offered));
    s.send({.flags = kAck, .seq = 1, .ack = 1});
    ASSERT_GE(s.accept(), 0);
    EXPECT_GE(s.info().mss_full_bytes, 8400u) << offered;
    EXPECT_LE(s.info().mss_full_bytes, offered);
  }
}

TEST_P(SynCookie, ForgedOrOldOnesAreReset) {  // RFC 4987 3.6
  Scenario s(GetParam());
  cookie_under_flood(s, Scenario::offered());
  s.send({.flags = kAck, .seq = 1, .ack = 2});
  s.expect(kRst);
  s.send({.flags = kSyn | kAck, .seq = 1, .ack = 1, .bytes = 10});
  s.expect(kRst);
  s.wait(seconds(300));
  s.all();
  s.send({.flags = kAck, .seq = 1, .ack = 1});
  s.expect(kRst);
}

using DeferAccept = OverBoth;
INSTANTIATE_OVER_BOTH(DeferAccept);

TEST_P(DeferAccept, WaitsForTheFirstWord) {  // TCP_DEFER_ACCEPT: a bare ACK counts as lost
  Scenario s(GetParam());
  s.listen();
  const int seconds_wanted = 5;
  ASSERT_EQ(s.sockets.set_option(s.listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds_wanted,
                                 sizeof seconds_wanted),
            0);
  s.send({.flags = kSyn, .options = Scenario::offered()});
  s.expect(kSyn | kAck);
  s.send({.flags = kAck, .seq = 1, .ack = 1});
  EXPECT_EQ(s.accept(), -EAGAIN);
  s.wait(seconds(3));
  s.expect_silence();
  s.send({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 4});
  EXPECT_EQ(s.expect(kAck).ack, 5u);
  ASSERT_GE(s.accept(), 0);
  EXPECT_EQ(s.read(), 4);
}

TEST_P(DeferAccept, GivesInAfterItsTime) {
  Scenario s(GetParam());
  s.listen();
  const int seconds_wanted = 2;
  ASSERT_EQ(s.sockets.set_option(s.listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds_wanted,
                                 sizeof seconds_wanted),
            0);
  s.send({.flags = kSyn, .options = Scenario::offered()});
  const Nanos opened = s.expect(kSyn | kAck).at;
  s.send({.flags = kAck, .seq = 1, .ack = 1});
  EXPECT_EQ(s.expect_later(kSyn | kAck).at - opened, seconds(2) + millis(100));
  s.send({.flags = kAck, .seq = 1, .ack = 1});
  EXPECT_GE(s.accept(), 0);
}

using Mss = OverBoth;
INSTANTIATE_OVER_BOTH(Mss);

TEST_P(Mss, PeerMayNotAskForNothing) {  // RFC 9293 3.7.1; an MSS of 0 must not divide
  for (const uint16_t mss : {uint16_t{0}, uint16_t{1}, uint16_t{10}, uint16_t{65535}}) {
    Scenario s(GetParam());
    s.establish_passive(Scenario::offered(mss));
    EXPECT_EQ(s.write(500), 500);
    uint32_t bytes = 0;
    for (const Seg& segment : s.all()) {
      EXPECT_LE(segment.bytes, 1000u);
      bytes += segment.bytes;
    }
    EXPECT_GT(bytes, 0u);
  }
}

TEST_P(Mss, AbsentMeansWhatEveryPathCarries) {  // RFC 9293 3.7.1
  StackOptions options = Scenario::plain();
  options.mtu_bytes = 2040;
  Scenario s(options, GetParam());
  s.establish_passive({});
  EXPECT_EQ(s.info().mss_bytes, GetParam() == Family::kIpv4 ? 536u : 1220u);
}

using Isn = OverBoth;
INSTANTIATE_OVER_BOTH(Isn);

TEST_P(Isn, DiffersByTupleAndGrows) {  // RFC 6528 3
  Scenario s(GetParam());
  s.listen();
  s.send({.flags = kSyn, .options = Scenario::offered()});
  s.expect(kSyn | kAck);
  const SeqNum first = s.own_iss;
  s.send({.flags = kRst, .seq = 1});
  s.wait(seconds(1));
  s.send({.flags = kSyn, .options = Scenario::offered()});
  s.expect(kSyn | kAck);
  EXPECT_TRUE(s.own_iss.after(first));
  s.peer_port = 6666;
  s.send({.flags = kSyn, .options = Scenario::offered()});
  s.expect(kSyn | kAck);
  EXPECT_GT(s.own_iss.since(first + 1000000), 1000000u);
}

}  // namespace
}  // namespace lyre::conformance
