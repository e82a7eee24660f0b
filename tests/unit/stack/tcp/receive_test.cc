#include <gtest/gtest.h>

#include <utility>

#include "stack/tcp/connection_fields.h"
#include "stack/tcp/connection_record.h"
#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

uint32_t read_all(Peer& peer) {
  uint32_t bytes = 0;
  while (const auto slice = peer.queue().take_readable()) bytes += slice->length;
  return bytes;
}

TEST(Receive, InOrderTextIsReadableAtOnce) {
  Peer peer;
  peer.dial();
  const Effects& effects = peer.text(0, 300);
  EXPECT_TRUE(effects.has_readable);
  EXPECT_TRUE(effects.payload_kept);
  EXPECT_EQ(read_all(peer), 300u);
}

TEST(Receive, GapHoldsTextBack) {
  Peer peer;
  peer.dial();
  EXPECT_FALSE(peer.text(1000, 500).has_readable);
  EXPECT_EQ(read_all(peer), 0u);
  EXPECT_TRUE(peer.text(0, 1000).has_readable);
  EXPECT_EQ(read_all(peer), 1500u);
}

TEST(Receive, OldBytesAreTrimmedOffTheFront) {
  Peer peer;
  peer.dial();
  peer.text(0, 100);
  read_all(peer);
  peer.text(50, 100);
  const auto slice = peer.queue().take_readable();
  ASSERT_TRUE(slice.has_value());
  EXPECT_EQ(slice->offset, 50u);
  EXPECT_EQ(slice->length, 50u);
}

TEST(Receive, StoredBytesWinOverLaterOnesThatOnlyOverlapThem) {
  Peer peer;
  peer.dial();
  SegmentIn stored = peer.make(kA, 100, 0, 200);
  stored.payload.slot = 11;
  peer.send(stored);
  SegmentIn later = peer.make(kA, 0, 0, 200);
  later.payload.slot = 12;
  peer.send(later);
  const auto first = peer.queue().take_readable();
  const auto second = peer.queue().take_readable();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->handle.slot, 12u);
  EXPECT_EQ(first->length, 100u);
  EXPECT_EQ(second->handle.slot, 11u);
  EXPECT_EQ(second->length, 200u);
}

TEST(Receive, SegmentThatFillsSeveralGapsIsKeptAsOne) {
  Peer peer;
  peer.dial();
  for (const uint32_t at : {100u, 300u}) {
    SegmentIn stored = peer.make(kA, at, 0, 100);
    stored.payload.slot = at;
    peer.send(stored);
  }
  SegmentIn wider = peer.make(kA, 0, 0, 500);
  wider.payload.slot = 12;
  EXPECT_TRUE(peer.send(wider).has_superseded);
  const auto all = peer.queue().take_readable();
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->handle.slot, 12u);
  EXPECT_EQ(all->length, 500u);
  EXPECT_FALSE(peer.queue().take_readable().has_value());
  EXPECT_TRUE(peer.queue().take_superseded().has_value());
  EXPECT_TRUE(peer.queue().take_superseded().has_value());
  EXPECT_FALSE(peer.queue().take_superseded().has_value());
  EXPECT_EQ(peer.engine.charged_bytes(peer.conn), peer.config.slot_bytes);
}

TEST(Receive, RepeatIsDroppedCountedAndReportedAsDsack) {  // RFC 2883 4.1
  Peer peer;
  peer.dial();
  peer.text(0, 100);
  peer.all();
  const Effects& effects = peer.text(0, 100);
  EXPECT_EQ(effects.drop, Drop::kTcpDuplicate);
  EXPECT_FALSE(effects.payload_kept);
  const auto ack = peer.next();
  ASSERT_TRUE(ack.has_value());
  ASSERT_EQ(ack->options.sack_count, 1);
  EXPECT_EQ(ack->options.sacks[0].start, peer.them(0));
  EXPECT_EQ(ack->options.sacks[0].end, peer.them(100));
  EXPECT_EQ(peer.info().duplicate_segments, 1u);
}

/// Goes on as a successor does, with these counters. REQUIRES: nothing is outstanding.
void continue_with_counters(Peer& peer, uint32_t out_of_order, uint32_t duplicates) {
  record::Writer written;
  peer.engine.records().write(peer.conn, written);
  Connection c;
  uint32_t sent_count = 0;
  bool has_undo = false;
  ASSERT_TRUE(record::Reader(written.bytes())
                  .take(record::Kind::kConnection, kConnectionRecordVersion,
                        [&](record::FieldReader& fields) {
                          list_connection(fields, c);
                          fields.number(sent_count);
                          fields.flag(has_undo);
                        }));
  c.out_of_order_segments = out_of_order;
  c.duplicate_segments = duplicates;
  record::Writer changed;
  changed.add(record::Kind::kConnection, kConnectionRecordVersion,
              [&](record::FieldWriter& fields) {
                list_connection(fields, std::as_const(c));
                fields.number(sent_count);
                fields.flag(has_undo);
              });
  record::Reader in(changed.bytes());
  const ConnId next = peer.engine.index_bound();
  ASSERT_TRUE(peer.engine.records().read(next, peer.config.slot_bytes, peer.now, in));
  peer.conn = next;
}

TEST(Receive, CountersStayAtTheirMaximum) {
  Peer peer;
  peer.dial();
  peer.all();
  continue_with_counters(peer, UINT32_MAX - 1, UINT32_MAX - 1);
  for (const uint32_t at : {2000u, 4000u}) peer.text(at, 1000);
  EXPECT_EQ(peer.info().out_of_order_segments, UINT32_MAX);
  for (int i = 0; i < 2; ++i) peer.text(2000, 1000);  // behind the gap
  EXPECT_EQ(peer.info().duplicate_segments, UINT32_MAX);
  for (int i = 0; i < 2; ++i) peer.text(0, 1000);  // before RCV.NXT
  EXPECT_EQ(peer.info().duplicate_segments, UINT32_MAX);
}

TEST(Receive, SackBlocksComeLatestFirst) {  // RFC 2018 4
  Peer peer;
  peer.dial();
  for (const uint32_t at : {2000u, 6000u, 4000u}) {
    peer.text(at, 1000);
  }
  const auto ack = peer.all().back();
  ASSERT_EQ(ack.options.sack_count, 3);
  EXPECT_EQ(ack.options.sacks[0].start, peer.them(4000));
  EXPECT_EQ(ack.options.sacks[1].start, peer.them(6000));
  EXPECT_EQ(ack.options.sacks[2].start, peer.them(2000));
}

TEST(Receive, TouchingBlocksBecomeOne) {
  Peer peer;
  peer.dial();
  peer.text(2000, 1000);
  peer.text(4000, 1000);
  peer.text(3000, 1000);
  const auto ack = peer.all().back();
  ASSERT_EQ(ack.options.sack_count, 1);
  EXPECT_EQ(ack.options.sacks[0].start, peer.them(2000));
  EXPECT_EQ(ack.options.sacks[0].end, peer.them(5000));
}

TEST(Receive, WithoutSackEverySegmentOutOfOrderOwesAnAck) {  // RFC 5681 4.2
  // RFC 2018 2: no blocks for a peer that did not permit them.
  Peer peer;
  peer.syn_options.sack_permitted = false;
  peer.dial();
  for (const uint32_t at : {1000u, 2000u, 3000u}) peer.text(at, 1000);
  const auto acks = peer.all();
  ASSERT_EQ(acks.size(), 3u);
  for (const SegmentOut& ack : acks) {
    EXPECT_EQ(ack.ack, peer.them(0));
    EXPECT_EQ(ack.options.sack_count, 0);
  }
}

TEST(Receive, TextBeyondTheWindowIsCutOff) {
  ConnectionConfig config = Peer::plain_config();
  config.receive_buffer_bytes = 4000;
  Peer peer(config);
  peer.dial();
  peer.text(0, 1000);
  peer.text(1000, 5000);
  EXPECT_EQ(read_all(peer), 4000u);
}

TEST(Receive, LoneSegmentMayRunOverTheWindow) {
  ConnectionConfig config = Peer::plain_config();
  config.receive_buffer_bytes = 4000;
  Peer peer(config);
  peer.dial();
  peer.text(0, 5000);
  EXPECT_EQ(read_all(peer), 5000u);
}

TEST(Receive, TextOutsideTheWindowIsRefusedAndAnswered) {  // RFC 9293 3.10.7.4, first
  Peer peer;
  peer.dial();
  EXPECT_EQ(peer.text(70000, 10).drop, Drop::kTcpOutOfWindow);
  const auto ack = peer.next();
  ASSERT_TRUE(ack.has_value());
  EXPECT_EQ(ack->ack, peer.them(0));
}

TEST(Receive, EverySecondFullSegmentIsAcknowledgedOnceTheStartIsOver) {  // RFC 9293 3.8.6.3
  Peer peer;
  peer.dial();
  uint32_t at = 0;
  for (; at < 16000; at += 1000) {
    peer.text(at, 1000);
    EXPECT_EQ(peer.all().size(), 1u) << "quick ACKs at the start";
    read_all(peer);
    peer.release(1000);
    peer.all();
  }
  peer.text(at, 1000);
  EXPECT_FALSE(peer.next().has_value());
  peer.text(at + 1000, 1000);
  EXPECT_TRUE(peer.next().has_value());
}

TEST(Receive, DelayedAckLeavesAfterItsTime) {
  Peer peer;
  peer.dial();
  for (uint32_t at = 0; at < 1600; at += 100) peer.text(at, 100);
  peer.all();
  peer.text(1600, 100);
  EXPECT_FALSE(peer.next().has_value());
  const Nanos arrived = peer.now;
  peer.run_deadline();
  EXPECT_EQ(peer.now, arrived + millis(peer.config.ack_delay_ms));
  const auto ack = peer.next();
  ASSERT_TRUE(ack.has_value());
  EXPECT_EQ(ack->ack, peer.them(1700));
}

TEST(Receive, ARepeatedAckSaysNothingNew) {
  Peer peer;
  peer.dial();
  peer.text(0, 100);
  peer.all();
  EXPECT_TRUE(peer.engine.repeat_ack(peer.conn).wants_transmit);
  const auto ack = peer.next();
  ASSERT_TRUE(ack.has_value());
  EXPECT_EQ(ack->flags.bits, kA);
  EXPECT_EQ(ack->payload_bytes, 0u);
  EXPECT_EQ(ack->seq, peer.us(0));
  EXPECT_EQ(ack->ack, peer.them(100));
  EXPECT_FALSE(peer.next().has_value());
}

TEST(Receive, NoAckIsRepeatedWhereItCouldMeanSomething) {
  Peer busy;
  busy.dial();
  busy.app_send(100);
  busy.all();
  EXPECT_FALSE(busy.engine.repeat_ack(busy.conn).wants_transmit) << "data is outstanding";

  ConnectionConfig config = Peer::plain_config();
  config.sack = false;
  Peer without_sack(config);
  without_sack.dial();
  EXPECT_FALSE(without_sack.engine.repeat_ack(without_sack.conn).wants_transmit) << "no SACK";

  Peer opening;
  opening.dial_only();
  EXPECT_FALSE(opening.engine.repeat_ack(opening.conn).wants_transmit) << "no connection yet";

  Peer closing;
  closing.dial();
  closing.shutdown();
  closing.all();
  closing.ack(1);
  EXPECT_FALSE(closing.engine.repeat_ack(closing.conn).wants_transmit) << "FIN-WAIT-2";
}

// RFC 6675 2: with SACK an ACK is a duplicate only if it reports something new.
TEST(Receive, RepeatedAcksOfThePeerAreNotAnsweredAndNoSignOfLoss) {
  Peer peer;
  peer.dial();
  peer.ack(0);
  EXPECT_FALSE(peer.next().has_value());
  peer.app_send(5000);
  EXPECT_EQ(peer.all().size(), 5u);
  for (int i = 0; i < 5; ++i) peer.ack(0);
  EXPECT_FALSE(peer.next().has_value());
  EXPECT_EQ(peer.info().bytes_retransmitted, 0u);
}

TEST(Receive, FullReassemblyPoolDropsOutOfOrderButNotInOrder) {
  Peer peer(Peer::plain_config(),
            {.connections_max = 1, .sent_records_max = 8, .received_runs_max = 2});
  peer.dial();
  peer.text(1000, 100);
  peer.text(3000, 100);
  EXPECT_EQ(peer.text(5000, 100).drop, Drop::kTcpReassemblyFull);
  EXPECT_TRUE(peer.text(0, 1000).has_readable);
}

/// Behind a gap at 0, `kManyRuns` bytes with a gap after each.
constexpr uint32_t kManyRuns = 1000;
constexpr uint32_t kRunStep = 8;

void leave_many_gaps(Peer& peer) {
  for (uint32_t i = 1; i <= kManyRuns; ++i) EXPECT_FALSE(peer.text(i * kRunStep, 1).drop);
}

ConnectionConfig with_many_gaps() {
  ConnectionConfig config = Peer::plain_config();
  config.slot_bytes = 10;
  return config;
}

// While the first gap stayed, retransmissions far from both ends of the queue were dropped.
TEST(Receive, RetransmissionsInOrderAreKeptBehindAGapThatStays) {
  Peer peer(with_many_gaps());
  peer.dial();
  leave_many_gaps(peer);
  for (uint32_t i = 1; i < kManyRuns; ++i) {
    EXPECT_FALSE(peer.text(i * kRunStep + 1, kRunStep - 1).drop) << i;
  }
  const Effects& effects = peer.text(0, kRunStep);
  EXPECT_TRUE(effects.has_readable);
  EXPECT_EQ(read_all(peer), kManyRuns * kRunStep + 1);
}

TEST(Receive, EachPlaceBehindAGapIsFound) {
  Peer peer(with_many_gaps());
  peer.dial();
  leave_many_gaps(peer);
  constexpr uint32_t kStride = 617;  // has no divisor in common with kManyRuns
  for (uint32_t i = 1; i <= kManyRuns; ++i) {
    const uint32_t gap = i * kStride % kManyRuns;
    EXPECT_FALSE(peer.text(gap * kRunStep + 2, 1).drop) << gap;
    EXPECT_EQ(peer.text(gap * kRunStep + 2, 1).drop, Drop::kTcpDuplicate) << gap;
  }
  while (peer.queue().take_out_of_order()) continue;
  EXPECT_TRUE(peer.text(0, 100).has_readable);
  EXPECT_EQ(read_all(peer), 100u);
}

/// Behind a gap at 0, `count` bytes, each in a segment of its own and `step` behind the last one.
void send_single_bytes(Peer& peer, uint32_t step, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) EXPECT_FALSE(peer.text(1 + i * step, 1).drop);
}

ConnectionConfig with_small_charges() {
  ConnectionConfig config = Peer::plain_config();
  config.slot_bytes = 100;
  return config;
}

// A repeat of held bytes made a segment cost a walk over all runs that touch it.
TEST(Receive, RepeatIsComparedWithFewRuns) {
  Peer peer(with_small_charges());
  peer.dial();
  constexpr uint32_t kBytes = 200;
  send_single_bytes(peer, 1, kBytes);
  EXPECT_EQ(peer.text(1, 1).drop, Drop::kTcpDuplicate) << "its own run is enough";
  EXPECT_EQ(peer.text(1, 50).drop, Drop::kTcpDuplicate);
  EXPECT_EQ(peer.text(1, 65).drop, Drop::kTcpDuplicate) << "64 runs beside the first one";
  EXPECT_EQ(peer.text(1, kBytes).drop, Drop::kTcpReassemblyFull);
  EXPECT_TRUE(peer.text(0, 1).has_readable);
  EXPECT_EQ(read_all(peer), 1 + kBytes);
}

TEST(Receive, SegmentReplacesFewRunsAtATime) {
  Peer peer(with_small_charges());
  peer.dial();
  constexpr uint32_t kRuns = 200;
  send_single_bytes(peer, 2, kRuns);
  constexpr uint32_t kEnd = 2 * kRuns;
  uint32_t segments = 0;
  for (uint32_t at = 0; at < kEnd; ++segments) {
    ASSERT_LT(segments, kRuns);
    EXPECT_TRUE(peer.text(at, kEnd - at).has_readable);
    while (peer.queue().take_superseded()) continue;
    const uint32_t acknowledged = peer.ack_at(peer.all().back().ack);
    ASSERT_GT(acknowledged, at);
    at = acknowledged;
  }
  EXPECT_EQ(segments, 4u);
  EXPECT_EQ(read_all(peer), kEnd);
}

TEST(Receive, FinBehindAGapWaitsForIt) {
  Peer peer;
  peer.dial();
  EXPECT_FALSE(peer.send(peer.make(kFA, 500, 0, 100)).peer_finished);
  EXPECT_EQ(peer.state(), State::kEstablished);
  EXPECT_TRUE(peer.text(0, 500).peer_finished);
  EXPECT_EQ(peer.state(), State::kCloseWait);
  EXPECT_EQ(peer.all().back().ack, peer.them(601));
}

/// Its sender would otherwise wait for its timeout.
TEST(Receive, FinBehindAGapIsReportedEachTime) {  // RFC 5681 4.2, RFC 2018 4
  Peer peer;
  peer.dial();
  for (int i = 0; i < 2; ++i) {
    peer.send(peer.make(kFA, 500, 0));
    const auto acks = peer.all();
    ASSERT_EQ(acks.size(), 1u);
    EXPECT_EQ(acks[0].ack, peer.them(0));
    ASSERT_EQ(acks[0].options.sack_count, 1);
    EXPECT_EQ(acks[0].options.sacks[0].start, peer.them(500));
    EXPECT_EQ(acks[0].options.sacks[0].end, peer.them(501));
  }
  EXPECT_TRUE(peer.text(0, 500).peer_finished);
  const auto last = peer.all().back();
  EXPECT_EQ(last.ack, peer.them(501));
  EXPECT_EQ(last.options.sack_count, 0);
}

TEST(Receive, FinOfTextBehindAGapIsInItsBlock) {  // RFC 2018 4
  Peer peer;
  peer.dial();
  peer.send(peer.make(kFA, 500, 0, 100));
  const auto ack = peer.all().back();
  ASSERT_EQ(ack.options.sack_count, 1);
  EXPECT_EQ(ack.options.sacks[0].start, peer.them(500));
  EXPECT_EQ(ack.options.sacks[0].end, peer.them(601));
}

TEST(Receive, TextThatLeavesAGapBeforeTheFinIsAcknowledgedAtOnce) {  // RFC 5681 4.2
  Peer peer;
  peer.dial();
  for (uint32_t at = 0; at < 100; at += 2) {  // more than the quick ACKs of a new connection
    peer.text(at, 1);
    peer.text(at + 1, 1);
    peer.wait(seconds(1));
    peer.all();
  }
  peer.send(peer.make(kFA, 500, 0));
  EXPECT_EQ(peer.all().size(), 1u);
  peer.text(100, 10);
  EXPECT_EQ(peer.all().size(), 1u);
}

TEST(Receive, FinBehindAGapIsAnsweredWithoutSack) {  // RFC 5681 4.2
  Peer peer;
  peer.syn_options.sack_permitted = false;
  peer.dial();
  for (int i = 0; i < 3; ++i) {
    peer.send(peer.make(kFA, 500, 0));
    const auto acks = peer.all();
    ASSERT_EQ(acks.size(), 1u);
    EXPECT_EQ(acks[0].options.sack_count, 0);
  }
}

TEST(Receive, TextBehindTheFinIsCounted) {  // RFC 9293 3.10.7.4, seventh
  Peer peer;
  peer.dial();
  peer.send(peer.make(kFA, 0, 0));
  EXPECT_EQ(peer.state(), State::kCloseWait);
  const Effects& effects = peer.text(1, 100);
  EXPECT_EQ(effects.drop, Drop::kTcpOutOfWindow);
  EXPECT_FALSE(effects.payload_kept);
}

TEST(Receive, FinThatCannotBeIsCounted) {  // RFC 9293 table 6
  Peer peer;
  peer.dial();
  peer.text(1000, 1000);
  EXPECT_EQ(peer.send(peer.make(kFA, 500, 0)).drop, Drop::kTcpOutOfWindow);  // below held text
  const uint32_t window = peer.info().receive_window_bytes;
  EXPECT_EQ(peer.send(peer.make(kFA, window, 0)).drop, Drop::kTcpOutOfWindow);  // beyond the edge
  EXPECT_EQ(peer.state(), State::kEstablished);
}

TEST(Receive, TakeAnyPayloadEmptiesWhatWaitsBehindGaps) {
  Peer peer;
  peer.dial();
  peer.text(0, 10);
  peer.text(100, 10);
  (void)peer.engine.on_app_abort(peer.conn, peer.now);
  EXPECT_TRUE(peer.queue().take_any().has_value());
  EXPECT_TRUE(peer.queue().take_any().has_value());
  EXPECT_FALSE(peer.queue().take_any().has_value());
  peer.engine.release(peer.conn);
  EXPECT_EQ(peer.engine.connection_count(), 0u);
}

// RFC 9293 3.8.6.3: an ACK for at least every second full segment, whatever was merged before.
TEST(Acknowledgments, CoverTwoSegmentsOfThePeerThoughMoreWereMerged) {
  ConnectionConfig config = Peer::plain_config();
  config.quick_acks_at_start = 0;
  Peer peer(config);
  peer.dial();
  SegmentIn merged = peer.make(kA, 0, 0, 6000);
  merged.segment_count = 10;
  peer.send(merged);
  EXPECT_EQ(peer.all().size(), 1u);
  peer.text(6000, 600);
  EXPECT_TRUE(peer.all().empty());
  peer.text(6600, 600);
  EXPECT_EQ(peer.all().size(), 1u);
}

/// A peer with segments of 8948 bytes, which have all been acknowledged.
class LargeSegments : public testing::Test {
 protected:
  LargeSegments() : peer(wide()) {
    peer.dial();
    for (int i = 0; i < 32; ++i) arrive(kA, 8948);
  }
  static ConnectionConfig wide() {
    ConnectionConfig config = Peer::plain_config();
    config.slot_bytes = config.mss_bytes = 8960;
    config.receive_buffer_bytes = config.receive_buffer_start_bytes = 1 << 20;
    config.window_scaling = true;
    return config;
  }
  /// Returns the number of ACKs that leave at once.
  size_t arrive(uint8_t flags, uint32_t bytes, uint16_t merged = 1) {
    SegmentIn segment = peer.make(flags, at, 0, bytes);
    segment.segment_count = merged;
    segment.flags.bits = flags;  // no PSH of its own
    peer.send(segment);
    at += bytes;
    return peer.all().size();
  }

  Peer peer;
  uint32_t at = 0;
};

// ACKs came for each twelfth segment: the largest one that was ever seen counted.
TEST_F(LargeSegments, ThatBecomeSmallAreAcknowledgedInPairs) {  // RFC 9293 3.8.6.3
  for (int i = 1; i <= 12; ++i) {
    const size_t acks = arrive(kA, 1448);
    if (i >= 4) {
      EXPECT_EQ(acks, i % 2 == 0 ? 1u : 0u) << i;
    }
  }
}

TEST_F(LargeSegments, AreNotForgottenForMessagesThatAreShort) {
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(arrive(kA | wire::TcpFlags::kPsh, 1448), 0u) << i;
  }
}

// The mean of a full segment and the short one behind it is no size that the peer sends.
TEST_F(LargeSegments, AreNotForgottenForMessagesOfTwo) {
  EXPECT_EQ(arrive(kA | wire::TcpFlags::kPsh, 9948, 2), 0u);
  EXPECT_EQ(arrive(kA | wire::TcpFlags::kPsh, 9948, 2), 1u);
  EXPECT_EQ(arrive(kA | wire::TcpFlags::kPsh, 9948, 2), 0u);
}

TEST(Paws, OldTimestampIsDroppedAndAnswered) {  // RFC 7323 5.3
  ConnectionConfig config = Peer::plain_config();
  config.timestamps = true;
  Peer peer(config);
  peer.syn_options.has_timestamps = true;
  peer.syn_options.ts_value = 1000;
  peer.dial();
  SegmentIn fresh = peer.make(kA, 0, 0, 10);
  fresh.options.has_timestamps = true;
  fresh.options.ts_value = 1005;
  EXPECT_TRUE(peer.send(fresh).has_readable);
  EXPECT_EQ(peer.all().back().options.ts_echo, 1005u);
  SegmentIn old = peer.make(kA, 10, 0, 10);
  old.options.has_timestamps = true;
  old.options.ts_value = 1004;
  EXPECT_EQ(peer.send(old).drop, Drop::kTcpPaws);
  EXPECT_TRUE(peer.next().has_value());
}

TEST(Paws, EchoFollowsOnlySegmentsThatReachTheLastAck) {  // RFC 7323 4.3
  ConnectionConfig config = Peer::plain_config();
  config.timestamps = true;
  Peer peer(config);
  peer.syn_options.has_timestamps = true;
  peer.syn_options.ts_value = 1000;
  peer.dial();
  SegmentIn later_text = peer.make(kA, 500, 0, 10);  // leaves a gap
  later_text.options.has_timestamps = true;
  later_text.options.ts_value = 1010;
  peer.send(later_text);
  EXPECT_EQ(peer.all().back().options.ts_echo, 1000u);
}

}  // namespace
}  // namespace lyre::tcp
