#include <gtest/gtest.h>

#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

TEST(Close, ActiveCloseWalksToTimeWaitAndEnds) {  // RFC 9293 3.6 figure 12
  Peer peer;
  peer.dial();
  peer.shutdown();
  EXPECT_EQ(peer.state(), State::kFinWait1);
  const auto fin = peer.next();
  ASSERT_TRUE(fin.has_value());
  EXPECT_EQ(fin->flags.bits, kFA);
  peer.ack(1);
  EXPECT_EQ(peer.state(), State::kFinWait2);
  const Effects& effects = peer.send(peer.make(kFA, 0, 1));
  EXPECT_TRUE(effects.peer_finished);
  EXPECT_TRUE(effects.entered_time_wait);
  EXPECT_EQ(peer.state(), State::kTimeWait);
  EXPECT_EQ(peer.next()->ack, peer.them(1));
  peer.wait(millis(peer.config.time_wait_ms));
  EXPECT_TRUE(peer.effects.is_over);
  EXPECT_EQ(peer.effects.reason, EndReason::kClosed);
}

TEST(Close, PassiveCloseWalksToLastAck) {
  Peer peer;
  peer.dial();
  EXPECT_TRUE(peer.send(peer.make(kFA, 0, 0)).peer_finished);
  EXPECT_EQ(peer.state(), State::kCloseWait);
  peer.all();
  peer.shutdown();
  EXPECT_EQ(peer.state(), State::kLastAck);
  peer.all();
  peer.sent_ = 1;
  const Effects& effects = peer.ack(1);
  EXPECT_TRUE(effects.is_over);
  EXPECT_EQ(effects.reason, EndReason::kClosed);
}

TEST(Close, SimultaneousCloseMeetsInClosing) {  // RFC 9293 3.6 figure 13
  Peer peer;
  peer.dial();
  peer.shutdown();
  peer.all();
  peer.send(peer.make(kFA, 0, 0));
  EXPECT_EQ(peer.state(), State::kClosing);
  peer.sent_ = 1;
  peer.ack(1);
  EXPECT_EQ(peer.state(), State::kTimeWait);
}

TEST(Close, FinAndItsAckInOneSegment) {
  Peer peer;
  peer.dial();
  peer.shutdown();
  peer.all();
  peer.send(peer.make(kFA, 0, 1));
  EXPECT_EQ(peer.state(), State::kTimeWait);
}

TEST(Close, HalfCloseGoesOnReceiving) {
  Peer peer;
  peer.dial();
  peer.shutdown();
  peer.all();
  peer.ack(1);
  EXPECT_TRUE(peer.text(0, 100).has_readable);
  EXPECT_EQ(peer.state(), State::kFinWait2);
}

TEST(Close, CloseWaitGoesOnSending) {
  Peer peer;
  peer.dial();
  peer.send(peer.make(kFA, 0, 0));
  peer.all();
  peer.app_send(100);
  const auto text = peer.next();
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(text->payload_bytes, 100u);
}

TEST(Close, FinFollowsWhatIsQueued) {
  Peer peer;
  peer.dial();
  peer.app_send(1500);
  peer.shutdown();
  const auto segments = peer.all();
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_FALSE(segments[0].flags.has(wire::TcpFlags::kFin));
  EXPECT_TRUE(segments[1].flags.has(wire::TcpFlags::kFin));
  EXPECT_EQ(segments[1].payload_bytes, 500u);
}

TEST(Close, LostFinIsSentAgain) {
  Peer peer;
  peer.dial();
  peer.shutdown();
  peer.all();
  peer.run_deadline();
  const auto again = peer.next();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->flags.bits, kFA);
  EXPECT_EQ(again->seq, peer.us(0));
}

TEST(Close, FinComesAfterTheHandshakeWhenShutDownBefore) {  // RFC 9293 3.10.4
  Peer peer;
  peer.dial_only();
  peer.app_send(10);
  peer.shutdown();
  SegmentIn answer = peer.make(kSA, 0, 0);
  answer.seq = peer.their_iss;
  answer.options = peer.syn_options;
  peer.send(answer);
  EXPECT_EQ(peer.state(), State::kFinWait1);
  EXPECT_TRUE(peer.next()->flags.has(wire::TcpFlags::kFin));
}

TEST(TimeWait, RepeatedFinIsAcknowledgedAndRestartsTheWait) {  // RFC 9293 3.10.7.4, eighth
  Peer peer;
  peer.dial();
  peer.shutdown();
  peer.all();
  peer.send(peer.make(kFA, 0, 1));
  peer.all();
  peer.wait(millis(peer.config.time_wait_ms) - seconds(1));
  peer.send(peer.make(kFA, 0, 1));
  const auto ack = peer.next();
  ASSERT_TRUE(ack.has_value());
  EXPECT_EQ(ack->ack, peer.them(1));
  peer.wait(millis(peer.config.time_wait_ms) - seconds(1));
  EXPECT_FALSE(peer.effects.is_over);
  peer.wait(seconds(1));
  EXPECT_TRUE(peer.effects.is_over);
}

/// The connection is in TIME-WAIT and has sent all its ACKs.
void reach_time_wait(Peer& peer) {
  peer.dial();
  peer.shutdown();
  peer.all();
  peer.send(peer.make(kFA, 0, 1));
  peer.all();
}

/// `segment` is not used, and is answered with the ACK that the connection sent last.
void expect_answer_in_time_wait(Peer& peer, const SegmentIn& segment) {
  const Effects& effects = peer.send(segment);
  EXPECT_EQ(effects.drop, Drop::kTcpOutOfWindow);
  EXPECT_FALSE(effects.payload_kept);
  const auto ack = peer.next();
  ASSERT_TRUE(ack.has_value());
  EXPECT_EQ(ack->flags.bits, kA);
  EXPECT_EQ(ack->seq, peer.us(1));
  EXPECT_EQ(ack->ack, peer.them(1));
  EXPECT_EQ(peer.state(), State::kTimeWait);
}

TEST(TimeWait, TextIsAcknowledgedAndNotTaken) {  // RFC 9293 3.10.7.4, fifth and seventh
  Peer peer;
  reach_time_wait(peer);
  expect_answer_in_time_wait(peer, peer.make(kA, 1, 1, 10));
}

TEST(TimeWait, AckAheadOfTheNextNumberIsAnswered) {  // RFC 9293 3.10.7.4, fifth
  Peer peer;
  reach_time_wait(peer);
  expect_answer_in_time_wait(peer, peer.make(kA, 100, 1));
}

TEST(TimeWait, AckOfTheUnsentIsAnswered) {  // RFC 9293 3.10.7.4, fifth
  Peer peer;
  reach_time_wait(peer);
  EXPECT_EQ(peer.send(peer.make(kA, 1, 100)).drop, Drop::kTcpBadAck);
  ASSERT_TRUE(peer.next().has_value());
}

TEST(TimeWait, AckAtTheNextNumberIsNotAnswered) {  // two hosts in TIME-WAIT would never end
  Peer peer;
  reach_time_wait(peer);
  EXPECT_EQ(peer.send(peer.make(kA, 1, 1)).drop, std::nullopt);
  EXPECT_FALSE(peer.next().has_value());
}

TEST(TimeWait, OnlyAFinMakesItLonger) {  // RFC 9293 3.10.7.4, eighth
  Peer peer;
  reach_time_wait(peer);
  peer.wait(millis(peer.config.time_wait_ms) - seconds(1));
  peer.send(peer.make(kA, 1, 1, 10));
  peer.wait(seconds(1));
  EXPECT_TRUE(peer.effects.is_over);
}

/// A host that knows only the four-tuple could keep it for ever.
TEST(TimeWait, OnlyThePeersOwnFinMakesItLonger) {  // RFC 9293 3.10.7.4, eighth
  for (const uint32_t at : {1u, 100u, 1u << 30}) {
    Peer peer;
    reach_time_wait(peer);
    peer.wait(millis(peer.config.time_wait_ms) - seconds(1));
    EXPECT_EQ(peer.send(peer.make(kFA, at, 1)).drop, Drop::kTcpOutOfWindow) << at;
    peer.all();
    peer.wait(seconds(1));
    EXPECT_TRUE(peer.effects.is_over) << at;
  }
}

TEST(TimeWait, AnswersAreFew) {  // RFC 5961 7
  Peer peer;
  reach_time_wait(peer);
  size_t answers = 0;
  for (int i = 0; i < 100; ++i) {
    peer.send(peer.make(kA, 1, 1, 10));
    answers += peer.all().size();
  }
  EXPECT_GT(answers, 0u);
  EXPECT_LT(answers, 20u);
}

void expect_reset(Peer& peer, uint32_t at) {
  EXPECT_TRUE(peer.effects.is_over);
  const auto reset = peer.next();
  ASSERT_TRUE(reset.has_value());
  EXPECT_TRUE(reset->flags.has(wire::TcpFlags::kRst));
  EXPECT_EQ(peer.at(reset->seq), at);
}

TEST(AppClose, TextThatStillArrivesIsAnsweredWithReset) {  // RFC 1122 4.2.2.13
  Peer peer;
  peer.dial();
  peer.close();
  peer.all();
  peer.ack(1);
  const Effects& effects = peer.send(peer.make(kA, 0, 1, 10));
  EXPECT_EQ(effects.drop, Drop::kTcpAfterClose);
  EXPECT_FALSE(effects.payload_kept);
  expect_reset(peer, 1);
}

// A reset alone means that the host lost the connection: NCCL's plugin dials it again.
TEST(AppClose, TextThatArrivesBeforeTheFinIsSentDoesNotTakeItsPlace) {
  Peer peer;
  peer.dial();
  peer.close();
  EXPECT_EQ(peer.text(0, 10).drop, Drop::kTcpAfterClose);
  EXPECT_FALSE(peer.effects.is_over);
  const auto fin = peer.next();
  ASSERT_TRUE(fin.has_value());
  EXPECT_TRUE(fin->flags.has(wire::TcpFlags::kFin));
  peer.ack(1);
  expect_reset(peer, 1);
}

TEST(AppClose, ResetForLateTextWaitsForALostFin) {
  Peer peer;
  peer.dial();
  peer.close();
  peer.all();  // lost
  EXPECT_EQ(peer.text(0, 10).drop, Drop::kTcpAfterClose);
  EXPECT_FALSE(peer.effects.is_over);
  peer.run_deadline();
  const auto fin = peer.next();
  ASSERT_TRUE(fin.has_value());
  EXPECT_TRUE(fin->flags.has(wire::TcpFlags::kFin));
  peer.ack(1);
  expect_reset(peer, 1);
}

// The reset waited for a FIN that could not leave, two minutes.
TEST(AppClose, LateTextOfAPeerThatGivesNoRoomIsAnsweredSoon) {  // RFC 1122 4.2.2.13
  for (const bool is_withdrawn : {false, true}) {
    SCOPED_TRACE(is_withdrawn);
    Peer peer;
    peer.dial();
    if (is_withdrawn) {
      peer.app_send(10);
      EXPECT_EQ(peer.all().size(), 1u);
    }
    peer.window = 0;
    peer.ack(0);
    peer.app_send(10);
    EXPECT_TRUE(peer.all().empty());
    peer.close();
    EXPECT_TRUE(peer.all().empty());
    EXPECT_EQ(peer.text(0, 10).drop, Drop::kTcpAfterClose);
    EXPECT_FALSE(peer.effects.is_over) << "the FIN goes first, if there is room soon";
    peer.wait(seconds(2));
    EXPECT_TRUE(peer.effects.is_over);
    EXPECT_TRUE(peer.all().back().flags.has(wire::TcpFlags::kRst));
  }
}

TEST(AppClose, LateTextEndsItSoonWhereEachFinIsLost) {
  Peer peer;
  peer.dial();
  peer.close();
  size_t fins = peer.all().size();
  EXPECT_FALSE(peer.text(0, 10).is_over);
  const Nanos refused_at = peer.now;
  while (!peer.effects.is_over) {
    peer.run_deadline();
    if (!peer.effects.is_over) fins += peer.all().size();
  }
  EXPECT_GE(fins, 4u);
  EXPECT_LE(peer.now - refused_at, seconds(2));
  EXPECT_TRUE(peer.next()->flags.has(wire::TcpFlags::kRst));
}

TEST(AppClose, AfterLateTextNoAckButThatOfTheFinPutsTheEndOff) {
  Peer peer;
  peer.dial();
  peer.app_send(1000);
  peer.close();
  peer.all();
  peer.text(0, 10);
  for (uint32_t at = 1; at <= 3 && !peer.effects.is_over; ++at) {
    peer.wait(millis(900));
    if (peer.effects.is_over) break;
    peer.send(peer.make(kA, 0, at, 10));
    peer.all();
  }
  EXPECT_TRUE(peer.effects.is_over);
}

TEST(AppClose, OrphanDoesNotWaitForEverInFinWait2) {
  Peer peer;
  peer.dial();
  peer.close();
  peer.all();
  peer.ack(1);
  EXPECT_EQ(peer.state(), State::kFinWait2);
  peer.wait(millis(peer.config.time_wait_ms));
  EXPECT_TRUE(peer.effects.is_over);
}

/// The peer answers every probe for so long, and has no room.
void answer_probes(Peer& peer, Nanos span) {
  const Nanos until = peer.now + span;
  while (peer.state() != State::kClosed && peer.engine.next_deadline(peer.conn) <= until) {
    peer.run_deadline();
    if (peer.state() == State::kClosed) return;
    if (peer.next()) peer.ack(0);
  }
  peer.now = until;
}

TEST(AppClose, OrphanDoesNotProbeAClosedWindowForEver) {
  for (const uint32_t left_bytes : {0u, 1000u}) {
    SCOPED_TRACE(left_bytes);
    Peer peer;
    peer.dial();
    peer.window = 0;
    peer.ack(0);
    if (left_bytes > 0) peer.app_send(left_bytes);
    EXPECT_TRUE(peer.all().empty());
    answer_probes(peer, seconds(10));
    peer.close();
    EXPECT_TRUE(peer.all().empty()) << "there is no room, not even for the FIN";
    answer_probes(peer, kOrphanWaitMin - seconds(1));
    EXPECT_EQ(peer.state(), State::kFinWait1);
    answer_probes(peer, seconds(2));
    EXPECT_EQ(peer.state(), State::kClosed);
    EXPECT_EQ(peer.effects.reason, EndReason::kTimedOut);
    EXPECT_TRUE(peer.effects.wants_transmit) << "the peer is told";
  }
}

TEST(AppClose, WhoIsNotClosedProbesOn) {  // RFC 9293 3.8.6.1
  Peer peer;
  peer.dial();
  peer.window = 0;
  peer.ack(0);
  peer.shutdown();
  EXPECT_TRUE(peer.all().empty());
  answer_probes(peer, kOrphanWaitMin * 10);
  EXPECT_EQ(peer.state(), State::kFinWait1);
}

TEST(AppClose, OrphanThatGetsOnIsNotEnded) {
  constexpr uint16_t kRoom = 1000;
  Peer peer;
  peer.dial();
  peer.window = 0;
  peer.ack(0);
  peer.app_send(3 * kRoom);
  peer.close();
  peer.all();
  for (uint32_t at = 0; at < 3 * kRoom; at += kRoom) {
    SCOPED_TRACE(at);
    peer.now += kOrphanWaitMin - seconds(10);
    peer.window = kRoom;
    peer.ack(at);
    EXPECT_EQ(peer.next()->payload_bytes, kRoom);
    peer.window = 0;
    peer.ack(at + kRoom);
    peer.all();
  }
  EXPECT_EQ(peer.state(), State::kFinWait1);
}

TEST(AppClose, OrphanHasNoLongUserTimeout) {
  for (const bool is_set_before : {true, false}) {
    SCOPED_TRACE(is_set_before);
    Peer peer;
    peer.dial();
    ConnectionConfig patient = peer.config;
    patient.user_timeout_ms = UINT32_MAX;
    const auto set = [&] {
      static_cast<void>(peer.engine.configure(peer.conn, patient, peer.now));
    };
    if (is_set_before) set();
    peer.app_send(1000);
    EXPECT_EQ(peer.all().size(), 1u);
    peer.close();
    peer.all();
    if (!is_set_before) set();
    peer.wait(kOrphanWaitMin + seconds(1));
    EXPECT_TRUE(peer.effects.is_over);
    EXPECT_EQ(peer.effects.reason, EndReason::kTimedOut);
  }
}

TEST(AppClose, InSynSentEndsAtOnce) {  // RFC 9293 3.10.4
  Peer peer;
  peer.dial_only();
  EXPECT_TRUE(peer.close().is_over);
  EXPECT_EQ(peer.effects.reason, EndReason::kAborted);
}

TEST(Abort, SendsResetOnceEstablished) {  // RFC 9293 3.10.5
  Peer peer;
  peer.dial();
  peer.app_send(100);
  peer.all();
  const auto reset = peer.engine.on_app_abort(peer.conn, peer.now);
  ASSERT_TRUE(reset.has_value());
  EXPECT_EQ(reset->flags.bits, kRA);
  EXPECT_EQ(reset->seq, peer.us(100));
  EXPECT_EQ(peer.state(), State::kClosed);
}

TEST(Abort, IsSilentInSynSent) {
  Peer peer;
  peer.dial_only();
  const auto reset = peer.engine.on_app_abort(peer.conn, peer.now);
  EXPECT_FALSE(reset.has_value());
}

}  // namespace
}  // namespace lyre::tcp
