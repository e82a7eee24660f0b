#include <gtest/gtest.h>

#include "stack/tcp/connection_record.h"
#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

TEST(ReceiveWindow, ClosesAsTheReaderLags) {
  ConnectionConfig config = Peer::plain_config();
  config.receive_buffer_bytes = 10000;
  Peer peer(config);
  peer.dial();
  for (uint32_t at = 0; at < 10000; at += 1000) peer.text(at, 1000);
  const auto acks = peer.all();
  EXPECT_EQ(acks.back().window, 0);
  EXPECT_EQ(peer.info().receive_window_bytes, 0u);
}

TEST(ReceiveWindow, ReopensWithAnUpdateOfItsOwn) {
  ConnectionConfig config = Peer::plain_config();
  config.receive_buffer_bytes = 10000;
  Peer peer(config);
  peer.dial();
  for (uint32_t at = 0; at < 10000; at += 1000) peer.text(at, 1000);
  peer.all();
  peer.queue().take_readable();
  peer.queue().take_readable();
  EXPECT_FALSE(peer.release(1000).wants_transmit);  // one segment: silly (RFC 9293 3.8.6.2.2)
  EXPECT_TRUE(peer.release(1000).wants_transmit);
  const auto update = peer.next();
  ASSERT_TRUE(update.has_value());
  EXPECT_EQ(update->window, 2000);
}

// But for text that finds no room, whose sender is told a window of zero.
TEST(ReceiveWindow, RightEdgeNeverMovesLeft) {  // RFC 9293 3.8.6
  ConnectionConfig config = Peer::plain_config();
  config.receive_buffer_bytes = 20000;
  Peer peer(config);
  peer.dial();
  SeqNum edge = peer.them(20000);
  for (uint32_t at = 0; at < 2000; at += 10) {  // 1000 bytes of charge for 10 of payload
    const bool is_refused = peer.text(at, 10).drop.has_value();
    for (const SegmentOut& ack : peer.all()) {
      EXPECT_EQ(ack.window == 0, is_refused) << at;
      if (is_refused) continue;
      EXPECT_TRUE((ack.ack + ack.window).at_or_after(edge));
      edge = ack.ack + ack.window;
    }
  }
}

TEST(ReceiveWindow, ScaledFieldCoversTheBuffer) {  // RFC 7323 2.3
  ConnectionConfig config = Peer::plain_config();
  config.window_scaling = true;
  config.receive_buffer_bytes = config.receive_buffer_start_bytes = 4 << 20;
  Peer peer(config);
  peer.dial();
  peer.text(0, 1000);
  const auto ack = peer.all().back();
  EXPECT_GT(uint32_t{ack.window} << 7, 3u << 20);
}

/// The sender of the refused text waits for its retransmission timeout unless it learns that there
/// is room.
TEST(ReceiveWindow, AnUpdateFollowsWhenRefusedTextHasRoomAgain) {  // RFC 9293 3.8.6
  ConnectionConfig config = Peer::plain_config();
  config.receive_buffer_bytes = config.receive_buffer_start_bytes = 16 * config.slot_bytes;
  Peer peer(config);
  peer.accept();
  uint32_t taken = 0;
  while (!peer.text(taken, 1).drop) {
    peer.all();
    ASSERT_LT(++taken, 100u);
  }
  EXPECT_EQ(*peer.effects.drop, Drop::kRxBudget);
  EXPECT_EQ(peer.all().back().window, 0u);
  uint32_t updates = 0;
  for (uint32_t i = 0; i < taken; ++i) {
    ASSERT_TRUE(peer.queue().take_readable());
    peer.release(config.slot_bytes);
    const bool has_room = peer.info().receive_charged_bytes < config.receive_buffer_bytes;
    const auto segments = peer.all();
    updates += static_cast<uint32_t>(segments.size());
    EXPECT_EQ(updates, has_room ? 1u : 0u) << i;
    for (const SegmentOut& update : segments) EXPECT_GT(update.window, 1000u);
  }
}

// Its sender would otherwise see retransmissions that nobody answers.
TEST(ReceiveWindow, IsZeroWhileTheNextTextHasNoRoomInThePool) {  // RFC 9293 3.8.6
  Peer peer;
  peer.dial();
  peer.text(0, 1000);
  EXPECT_GT(peer.all().back().window, 10000u);
  SegmentIn refused = peer.make(kA, 1000, 0, 1000);
  refused.has_room = false;
  EXPECT_EQ(peer.send(refused).drop, Drop::kRxPoolLow);
  const auto answers = peer.all();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(peer.ack_at(answers[0].ack), 1000u);
  EXPECT_EQ(answers[0].window, 0u);
  peer.text(2000, 1000);
  EXPECT_EQ(peer.all().back().window, 0u) << "text behind it changes nothing";
  peer.text(1000, 1000);
  const auto ack = peer.all().back();
  EXPECT_EQ(peer.ack_at(ack.ack), 3000u);
  EXPECT_GT(ack.window, 10000u);
}

TEST(ReceiveWindow, TextThatFindsRoomAtLastIsAcknowledgedAtOnce) {  // its sender waits for that
  ConnectionConfig config = Peer::plain_config();
  config.quick_acks_at_start = 0;
  Peer peer(config);
  peer.dial();
  SegmentIn refused = peer.make(kA, 0, 0, 1000);
  refused.has_room = false;
  peer.send(refused);
  EXPECT_EQ(peer.all().back().window, 0u);
  peer.text(0, 1000);
  const auto ack = peer.next();
  ASSERT_TRUE(ack.has_value());
  EXPECT_GT(ack->window, 10000u);
}

TEST(ReceiveWindow, AnUpdateFollowsAlsoWhereAFinIsKnown) {
  Peer peer;
  peer.dial();
  peer.text(0, 1000);
  SegmentIn refused = peer.make(kFA, 1000, 0, 1000);
  refused.has_room = false;
  EXPECT_EQ(peer.send(refused).drop, Drop::kRxPoolLow);
  EXPECT_EQ(peer.all().back().window, 0u);
  ASSERT_TRUE(peer.queue().take_readable());
  EXPECT_TRUE(peer.release(1000).wants_transmit);
  EXPECT_GT(peer.next()->window, 10000u);
}

void refuse_text(Peer& peer) {
  SegmentIn refused = peer.make(kA, 0, 0, 1000);
  refused.has_room = false;
  peer.send(refused);
  EXPECT_EQ(peer.all().back().window, 0u);
}

// The text held nothing whose release would tell.
TEST(ReceiveWindow, OpensWhenThePoolHasRoomAgain) {
  Peer peer;
  peer.dial();
  refuse_text(peer);
  EXPECT_TRUE(peer.release(0).wants_transmit);
  EXPECT_GT(peer.next()->window, 10000u);
  EXPECT_FALSE(peer.release(0).wants_transmit) << "nothing was refused since";
}

// A successor of the daemon has another pool.
TEST(ReceiveWindow, OpensWhenTheConnectionHasMoved) {
  Peer peer;
  peer.dial();
  refuse_text(peer);
  peer.engine.records().speak_up(peer.conn);
  const auto ack = peer.next();
  ASSERT_TRUE(ack.has_value());
  EXPECT_GT(ack->window, 10000u);
}

TEST(ReceiveWindow, StaysOpenWhereOnlyTextBehindAGapHasNoRoom) {
  Peer peer;
  peer.dial();
  SegmentIn refused = peer.make(kA, 1000, 0, 1000);
  refused.has_room = false;
  EXPECT_EQ(peer.send(refused).drop, Drop::kRxPoolLow);
  EXPECT_GT(peer.all().back().window, 10000u);
}

TEST(ReceiveWindow, AcknowledgementsInRefusedSegmentsCount) {
  Peer peer;
  peer.dial();
  peer.app_send(1000);
  peer.all();
  SegmentIn refused = peer.make(kA, 0, 1000, 1000);
  refused.has_room = false;
  EXPECT_EQ(peer.send(refused).acked_bytes, 1000u);
}

TEST(SendWindow, NothingLeavesBeyondThePeersWindow) {
  Peer peer;
  peer.dial(2500);
  peer.app_send(10000);
  const auto segments = peer.all();
  ASSERT_EQ(segments.size(), 2u);
  // 500 more would fit: a silly window (RFC 9293 3.8.6.2.1), less than half of the largest seen.
  EXPECT_EQ(peer.at(segments[1].seq) + segments[1].payload_bytes, 2000u);
}

TEST(SendWindow, ZeroWindowIsProbedWithBackoffForAsLongAsThePeerAnswers) {  // RFC 9293 3.8.6.1
  Peer peer;
  peer.dial();
  peer.app_send(1000);
  peer.all();
  peer.window = 0;
  peer.ack(1000);
  peer.app_send(1000);
  EXPECT_TRUE(peer.all().empty());
  Nanos last_gap{0};
  for (int i = 0; i < 12; ++i) {
    const Nanos before = peer.now;
    peer.run_deadline();
    const auto probe = peer.next();
    ASSERT_TRUE(probe.has_value());
    EXPECT_EQ(probe->seq, peer.us(999));
    EXPECT_EQ(probe->payload_bytes, 0u);
    EXPECT_GE(peer.now - before, last_gap);
    last_gap = peer.now - before;
    peer.ack(1000);
  }
  EXPECT_EQ(peer.state(), State::kEstablished);
  peer.window = 5000;
  EXPECT_TRUE(peer.ack(1000).wants_transmit);
  const auto text = peer.next();
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(text->payload_bytes, 1000u);
}

TEST(SendWindow, IsKnownAsClosedAsLongAsProbesAreAnswered) {  // RFC 9293 3.8.6.1
  Peer peer;
  const auto is_closed = [&] { return peer.engine.send_side(peer.conn).is_window_closed; };
  const auto answer_probe = [&] {
    peer.run_deadline();
    EXPECT_TRUE(peer.next().has_value());
    peer.ack(0);
  };
  peer.dial();
  peer.window = 0;
  peer.ack(0);
  peer.app_send(1000);
  EXPECT_TRUE(peer.all().empty());
  EXPECT_FALSE(is_closed()) << "no probe was answered: it may open in a moment";
  answer_probe();
  EXPECT_TRUE(is_closed());
  EXPECT_TRUE(peer.effects.wants_transmit) << "the worker looks after a turn to transmit";
  for (int i = 0; i < 2; ++i) {
    peer.run_deadline();
    EXPECT_TRUE(peer.next().has_value());
    EXPECT_EQ(is_closed(), i == 0) << "the first of these probes was not answered";
  }
  answer_probe();
  EXPECT_TRUE(is_closed());
  peer.window = 5000;
  peer.ack(0);
  EXPECT_TRUE(peer.next().has_value());
  EXPECT_FALSE(is_closed());
}

/// A peer that has no room for what was sent, as it says with a window of zero.
class WithdrawnWindow : public testing::Test {
 protected:
  WithdrawnWindow() {
    peer.dial();
    peer.app_send(3000);
    EXPECT_EQ(peer.all().size(), 3u);
    answer();
  }
  void answer() {
    peer.window = 0;
    peer.ack(0);
  }
  /// Runs timers until something is sent.
  SegmentOut retransmission() {
    for (int i = 0; i < 10 && !peer.effects.is_over; ++i) {
      peer.run_deadline();
      if (const auto segment = peer.next()) return *segment;
    }
    ADD_FAILURE() << "nothing was sent";
    return {};
  }
  bool is_known_as_closed() { return peer.engine.send_side(peer.conn).is_window_closed; }

  Peer peer;
};

TEST_F(WithdrawnWindow, KeepsTheConnectionForAsLongAsThePeerAnswers) {  // RFC 9293 3.8.6, 3.8.6.1
  const Nanos begin = peer.now;
  EXPECT_FALSE(is_known_as_closed()) << "it may open in a moment";
  while (peer.now - begin < millis(peer.config.user_timeout_ms) * 20) {
    const SegmentOut segment = retransmission();
    ASSERT_TRUE(segment.is_retransmission);
    EXPECT_LE(segment.payload_bytes, 1000u);
    answer();
    ASSERT_EQ(peer.state(), State::kEstablished);
    EXPECT_TRUE(peer.all().empty());
  }
  EXPECT_TRUE(is_known_as_closed());
  EXPECT_EQ(peer.info().waiting, Waiting::kWindow);
}

TEST_F(WithdrawnWindow, UnansweredRetransmissionsEndInUserTimeout) {
  retransmission();
  retransmission();
  answer();
  ASSERT_TRUE(is_known_as_closed());
  retransmission();
  EXPECT_TRUE(is_known_as_closed());
  retransmission();
  EXPECT_FALSE(is_known_as_closed()) << "the one before was not answered";
  peer.wait(millis(peer.config.user_timeout_ms) + seconds(1));
  EXPECT_TRUE(peer.effects.is_over);
  EXPECT_EQ(peer.effects.reason, EndReason::kTimedOut);
}

TEST_F(WithdrawnWindow, IsUsedAtOnceWhenItIsBack) {
  for (int i = 0; i < 8; ++i) {
    retransmission();
    answer();
  }
  peer.wait(peer.info().rtt_min);
  peer.window = 60000;
  EXPECT_TRUE(peer.ack(0).wants_transmit);
  EXPECT_FALSE(peer.all().empty());
  EXPECT_FALSE(is_known_as_closed());
  peer.ack(1000);
  EXPECT_FALSE(peer.all().empty());
  peer.ack(3000);
  EXPECT_FALSE(peer.info().waiting == Waiting::kAcknowledgement);
}

TEST_F(WithdrawnWindow, IsOpenAgainWhenARetransmissionFillsTheHole) {
  retransmission();  // the tail loss probe
  retransmission();
  answer();
  ASSERT_TRUE(is_known_as_closed());
  retransmission();
  peer.window = 60000;
  EXPECT_TRUE(peer.ack(3000).wants_transmit) << "the worker looks, and tells the client";
  EXPECT_FALSE(is_known_as_closed());
}

TEST_F(WithdrawnWindow, LeavesNoBackoffBehind) {
  for (int i = 0; i < 12; ++i) {
    retransmission();
    answer();
  }
  retransmission();
  peer.window = 60000;
  peer.ack(3000);
  peer.all();
  peer.app_send(1000);
  ASSERT_EQ(peer.all().size(), 1u);
  const Nanos sent_at = peer.now;
  EXPECT_TRUE(retransmission().is_retransmission) << "it was lost";
  EXPECT_LT(peer.now - sent_at, millis(peer.config.user_timeout_ms / 4));
}

TEST_F(WithdrawnWindow, StaysKnownAsClosedWhileOneSegmentAtATimeFindsRoom) {
  for (int i = 0; i < 4; ++i) {
    retransmission();
    answer();
  }
  ASSERT_TRUE(is_known_as_closed());
  peer.ack(1000);
  peer.all();
  EXPECT_TRUE(is_known_as_closed());
  retransmission();
  EXPECT_TRUE(is_known_as_closed()) << "every probe was answered";
}

TEST_F(WithdrawnWindow, StaysKnownAsClosedWhenTheLastSegmentTookTheRoom) {
  for (int i = 0; i < 4; ++i) {
    retransmission();
    answer();
  }
  ASSERT_TRUE(is_known_as_closed());
  peer.ack(3000);
  EXPECT_TRUE(is_known_as_closed());
  peer.window = 60000;
  EXPECT_TRUE(peer.ack(3000).wants_transmit) << "the worker looks, and tells the client";
  EXPECT_FALSE(is_known_as_closed());
}

TEST_F(WithdrawnWindow, ThatComesBackAgainAndAgainCostsOneSegmentInARoundTrip) {
  peer.wait(peer.info().rtt_min);
  uint32_t segments = 0;
  for (int i = 0; i < 100; ++i) {
    peer.window = 60000;
    peer.ack(0);
    segments += static_cast<uint32_t>(peer.all().size());
    answer();
  }
  EXPECT_LE(segments, 1u);
}

// The gaps between retransmissions grew beyond the user timeout: one that was lost ended all.
TEST_F(WithdrawnWindow, OneLostAnswerEndsNothing) {
  for (int i = 0; i < 30; ++i) {
    retransmission();
    if (i != 20) answer();
    ASSERT_EQ(peer.state(), State::kEstablished) << i;
  }
}

TEST_F(WithdrawnWindow, IsNoSignOfAPathThatDropsLargeSegments) {
  for (int i = 0; i < 10; ++i) {
    retransmission();
    answer();
  }
  EXPECT_EQ(peer.info().mss_bytes, peer.info().mss_full_bytes);
}

TEST_F(WithdrawnWindow, DoesNotKeepAConnectionThatTheApplicationClosed) {
  peer.close();
  const Nanos begin = peer.now;
  bool is_open = false;  // the peer withdraws its window again and again
  while (!peer.effects.is_over && peer.now - begin < millis(peer.config.user_timeout_ms) * 20) {
    peer.run_deadline();
    peer.all();
    if (peer.effects.is_over) break;
    is_open = !is_open;
    peer.window = is_open ? 60000 : 0;
    peer.ack(0);
    peer.all();
  }
  EXPECT_TRUE(peer.effects.is_over);
}

TEST(SendWindow, UnansweredProbesEndInUserTimeout) {
  Peer peer;
  peer.dial();
  peer.window = 0;
  peer.ack(0);
  peer.app_send(1000);
  EXPECT_TRUE(peer.all().empty());
  peer.wait(millis(peer.config.user_timeout_ms) + seconds(1));
  EXPECT_TRUE(peer.effects.is_over);
  EXPECT_EQ(peer.effects.reason, EndReason::kTimedOut);
}

TEST(SendWindow, SmallWindowIsUsedOncePersistRunsOut) {
  Peer peer;
  peer.dial();
  peer.window = 300;
  peer.ack(0);
  peer.app_send(1000);
  EXPECT_TRUE(peer.all().empty());
  peer.run_deadline();
  const auto piece = peer.next();
  ASSERT_TRUE(piece.has_value());
  EXPECT_EQ(piece->payload_bytes, 300u);
}

/// With text to send the peer's window is closed, and `probes` of it are answered. Returns the time
/// before the last one.
Nanos probe_closed_window(Peer& peer, int probes) {
  peer.dial();
  peer.window = 0;
  peer.ack(0);
  peer.app_send(1000);
  EXPECT_TRUE(peer.all().empty());
  Nanos interval{0};
  for (int i = 0; i < probes; ++i) {
    const Nanos before = peer.now;
    peer.run_deadline();
    interval = peer.now - before;
    EXPECT_TRUE(peer.next().has_value());
    peer.ack(0);
  }
  return interval;
}

// Probes came further apart than the user timeout: one that was lost ended all.
TEST(SendWindow, OneLostProbeEndsNothing) {  // RFC 9293 3.8.6.1
  Peer peer;
  probe_closed_window(peer, 12);
  peer.run_deadline();
  EXPECT_TRUE(peer.next().has_value());  // and gets no answer
  peer.run_deadline();
  ASSERT_FALSE(peer.effects.is_over);
  EXPECT_TRUE(peer.next().has_value());
}

// The text waited as long as the next probe of the closed window would have.
TEST(SendWindow, SmallOpeningAfterALongClosureIsUsedSoon) {  // RFC 9293 3.8.6.2.1
  Peer peer;
  probe_closed_window(peer, 8);
  peer.window = 300;
  peer.ack(0);
  EXPECT_TRUE(peer.all().empty());
  const Nanos opened_at = peer.now;
  peer.run_deadline();
  EXPECT_EQ(peer.now, opened_at + peer.info().rto);
  const auto piece = peer.next();
  ASSERT_TRUE(piece.has_value());
  EXPECT_EQ(piece->payload_bytes, 300u);
}

TEST(SendWindow, AnOpeningDoesNotPutOffTheProbeThatIsDue) {  // RFC 9293 3.8.6.1
  Peer peer;
  const Nanos next = probe_closed_window(peer, 4) * 2;
  const Nanos probe_at = peer.now + next;
  peer.wait(next - millis(5));
  peer.window = 300;
  peer.ack(0);
  peer.run_deadline();
  EXPECT_EQ(peer.now, probe_at);
}

TEST(SendWindow, OldSegmentsDoNotUpdateIt) {  // RFC 9293 3.10.7.4: SND.WL1, SND.WL2
  Peer peer;
  peer.dial();
  peer.app_send(3000);
  peer.all();
  peer.ack(2000);
  const uint32_t before = peer.info().send_window_bytes;
  SegmentIn old = peer.make(kA, 0, 1000);
  old.window = 1;
  peer.send(old);
  EXPECT_EQ(peer.info().send_window_bytes, before);
}

TEST(Nagle, HoldsASmallPieceWhileSomethingIsUnacknowledged) {  // RFC 9293 3.7.4
  ConnectionConfig config = Peer::plain_config();
  config.nagle = true;
  Peer peer(config);
  peer.dial();
  peer.app_send(100);
  EXPECT_EQ(peer.all().size(), 1u);
  peer.app_send(100);
  EXPECT_TRUE(peer.all().empty());
  peer.ack(100);
  EXPECT_EQ(peer.all().size(), 1u);
}

TEST(Nagle, OffLetsEveryPieceGo) {
  Peer peer;
  peer.dial();
  peer.app_send(100);
  EXPECT_EQ(peer.all().size(), 1u);
  peer.app_send(100);
  const auto piece = peer.next();
  ASSERT_TRUE(piece.has_value());
  EXPECT_TRUE(piece->flags.has(wire::TcpFlags::kPsh));
  EXPECT_EQ(piece->queue_offset, 100u);
}

TEST(Segments, PushMarksTheEndOfTheQueueOnly) {
  Peer peer;
  peer.dial();
  peer.app_send(2500);
  const auto segments = peer.all();
  ASSERT_EQ(segments.size(), 3u);
  EXPECT_FALSE(segments[0].flags.has(wire::TcpFlags::kPsh));
  EXPECT_FALSE(segments[1].flags.has(wire::TcpFlags::kPsh));
  EXPECT_TRUE(segments[2].flags.has(wire::TcpFlags::kPsh));
}

TEST(Segments, OffloadedOnesAreMultiplesOfTheMssButForTheTail) {
  Peer peer;
  peer.dial();
  peer.app_send(9500);
  const uint64_t sent_before = peer.info().segments_sent;
  const auto segments = peer.all(4500);
  ASSERT_EQ(segments.size(), 3u);
  EXPECT_EQ(segments[0].payload_bytes, 4000u);
  EXPECT_EQ(segments[1].payload_bytes, 4000u);
  EXPECT_EQ(segments[2].payload_bytes, 1500u);
  EXPECT_EQ(segments[0].mss_bytes, 1000);
  EXPECT_EQ(peer.info().segments_sent - sent_before, 10u) << "as they are cut";
}

TEST(Segments, TimestampsComeOutOfThePayload) {  // RFC 9293 3.7.1
  ConnectionConfig config = Peer::plain_config();
  config.timestamps = true;
  Peer peer(config);
  peer.syn_options.has_timestamps = true;
  peer.dial();
  peer.app_send(5000);
  EXPECT_EQ(peer.next()->payload_bytes, 988u);
}

TEST(SendQueue, RoomShrinksAndComesBackWithAcks) {
  ConnectionConfig config = Peer::plain_config();
  config.send_buffer_bytes = 5000;
  Peer peer(config);
  peer.dial();
  EXPECT_EQ(peer.engine.send_room_bytes(peer.conn), 5000u);
  peer.app_send(5000);
  EXPECT_EQ(peer.engine.send_room_bytes(peer.conn), 0u);
  peer.all();
  EXPECT_EQ(peer.ack(2000).acked_bytes, 2000u);
  EXPECT_EQ(peer.engine.send_room_bytes(peer.conn), 2000u);
}

}  // namespace
}  // namespace lyre::tcp
