#include "stack/tcp/undo.h"

#include <gtest/gtest.h>

#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

ConnectionConfig with_timestamps() {
  ConnectionConfig config = Peer::plain_config();
  config.timestamps = true;
  return config;
}

/// A connection with timestamps and ten segments in flight. Returns their timestamp.
uint32_t send_ten_timed(Peer& peer) {
  peer.syn_options.has_timestamps = true;
  peer.syn_options.ts_value = 1;
  peer.dial();
  peer.app_send(40000);
  const auto segments = peer.all();
  EXPECT_EQ(segments.size(), 10u);
  return segments.front().options.ts_value;
}

const Effects& ack_echoing(Peer& peer, uint32_t ack_at, uint32_t ts_echo) {
  SegmentIn segment = peer.make(kA, 0, ack_at);
  segment.options.has_timestamps = true;
  segment.options.ts_value = 1;
  segment.options.ts_echo = ts_echo;
  return peer.send(segment);
}

/// Waits for the retransmission timeout. Returns the first segment that is sent again.
SegmentOut time_out(Peer& peer) {
  while (peer.info().timeouts == 0) {
    peer.all();
    peer.run_deadline();
  }
  const auto again = peer.next();
  EXPECT_TRUE(again && again->is_retransmission);
  return *again;
}

TEST(SpuriousTimeout, OldTimestampEchoGivesTheWindowBack) {  // RFC 3522 3.2, RFC 4015 4
  Peer peer(with_timestamps());
  const uint32_t first_sent = send_ten_timed(peer);
  const uint32_t cwnd = peer.info().cwnd_bytes;
  const SegmentOut again = time_out(peer);
  ASSERT_NE(again.options.ts_value, first_sent);
  EXPECT_EQ(peer.info().cwnd_bytes, 1000u);
  peer.now += millis(5);
  ack_echoing(peer, 2000, first_sent);  // of the first transmission
  EXPECT_EQ(peer.info().undone_reductions, 1u);
  EXPECT_GE(peer.info().cwnd_bytes, cwnd);
  for (const SegmentOut& segment : peer.all()) EXPECT_FALSE(segment.is_retransmission);
  ack_echoing(peer, 10000, first_sent);
  for (const SegmentOut& segment : peer.all()) EXPECT_FALSE(segment.is_retransmission);
}

TEST(SpuriousTimeout, RealLossIsNotUndone) {
  Peer peer(with_timestamps());
  send_ten_timed(peer);
  const SegmentOut again = time_out(peer);
  peer.now += millis(5);
  ack_echoing(peer, 1000, again.options.ts_value);
  EXPECT_EQ(peer.info().undone_reductions, 0u);
  const auto next = peer.next();
  ASSERT_TRUE(next.has_value());
  EXPECT_TRUE(next->is_retransmission);
  EXPECT_EQ(next->seq, peer.us(1000));
  ack_echoing(peer, 2000, 0);  // only the first ACK is evidence
  EXPECT_EQ(peer.info().undone_reductions, 0u);
}

TEST(SpuriousTimeout, WithoutTimestampsDuplicateReportsTell) {  // RFC 3708 2
  Peer peer;
  peer.dial();
  peer.app_send(2000);
  peer.all();
  peer.now += millis(10);
  peer.ack(2000);
  peer.app_send(2000);
  peer.all();
  const uint32_t ssthresh = peer.info().ssthresh_bytes;
  time_out(peer);
  peer.all();
  ASSERT_NE(peer.info().ssthresh_bytes, ssthresh);
  peer.now += millis(5);
  peer.ack(4000);
  const auto resent = static_cast<uint32_t>(peer.info().bytes_retransmitted);
  ASSERT_GE(resent, 1000u);
  peer.ack_with_sack(4000, {{2000, 3000}});
  peer.ack_with_sack(4000, {{3000, 4000}});
  EXPECT_EQ(peer.info().ssthresh_bytes, ssthresh);
}

TEST(SpuriousRecovery, DuplicateReportBelowSndUnaGivesTheWindowBack) {  // RFC 2883 4, RFC 3708 2
  Peer peer;
  peer.dial();
  peer.app_send(8000);
  ASSERT_EQ(peer.all().size(), 8u);
  peer.now += millis(10);
  peer.ack_with_sack(0, {{1000, 4000}});
  ASSERT_TRUE(peer.next()->is_retransmission);
  EXPECT_LT(peer.info().ssthresh_bytes, 10000u);
  peer.now += millis(5);
  peer.ack(8000);
  EXPECT_EQ(peer.info().undone_reductions, 0u);
  peer.ack_with_sack(4000, {{0, 1000}});  // overtaken, and it reports the retransmission
  EXPECT_EQ(peer.info().undone_reductions, 1u);
  EXPECT_EQ(peer.info().cwnd_bytes, 10000u);
  peer.app_send(20000);
  EXPECT_EQ(peer.all().size(), 10u);
}

TEST(SpuriousRecovery, OneRetransmissionThatWasNeededKeepsTheReduction) {
  Peer peer;
  peer.dial();
  peer.app_send(10000);
  peer.all();
  peer.now += millis(10);
  peer.ack_with_sack(0, {{2000, 6000}});  // 0 and 1000 are sent again
  peer.all();
  peer.now += millis(10);
  peer.ack_with_sack(0, {{1000, 10000}});
  peer.all();
  peer.ack(10000);
  peer.ack_with_sack(10000, {{0, 1000}});  // one of the originals was late
  EXPECT_EQ(peer.info().undone_reductions, 0u);
}

/// The DSACK block of a duplicate above SND.UNA comes before the SACK block that contains it.
TEST(SpuriousRecovery, RepeatInsideASackedBlockIsReportedToo) {  // RFC 2883 4.2
  Peer peer;
  peer.dial();
  peer.app_send(8000);
  peer.all();
  peer.now += millis(10);
  peer.ack_with_sack(0, {{2000, 8000}});
  uint32_t resent = 0;
  for (const SegmentOut& segment : peer.all()) resent += segment.is_retransmission ? 1 : 0;
  ASSERT_EQ(resent, 2u);
  peer.now += millis(10);
  peer.ack_with_sack(0, {{1000, 8000}});                // the second original was late
  peer.ack_with_sack(0, {{1000, 2000}, {1000, 8000}});  // and its retransmission
  peer.ack_with_sack(8000, {});
  peer.ack_with_sack(8000, {{0, 1000}});
  EXPECT_EQ(peer.info().undone_reductions, 1u);
}

TEST(SpuriousRecovery, DuplicatesOfOtherTimesDoNotCount) {
  Peer peer;
  peer.dial();
  peer.app_send(4000);
  peer.all();
  peer.now += millis(10);
  peer.ack(4000);
  peer.app_send(8000);
  peer.all();
  peer.now += millis(10);
  peer.ack_with_sack(4000, {{5000, 8000}});
  peer.all();
  peer.ack(12000);
  peer.ack_with_sack(12000, {{0, 1000}});
  EXPECT_EQ(peer.info().undone_reductions, 0u);
}

TEST(SpuriousRecovery, LateOriginalIsRecognisedByItsTimestamp) {  // RFC 3522
  Peer peer(with_timestamps());
  const uint32_t first_sent = send_ten_timed(peer);
  const uint32_t cwnd = peer.info().cwnd_bytes;
  peer.now += millis(10);
  SegmentIn sack = peer.make(kA, 0, 0);
  sack.options.has_timestamps = true;
  sack.options.ts_value = 1;
  sack.options.ts_echo = first_sent;
  sack.options.sack_count = 1;
  sack.options.sacks[0] = {.start = peer.us(1000), .end = peer.us(5000)};
  peer.send(sack);
  ASSERT_TRUE(peer.next()->is_retransmission);
  peer.all();
  peer.now += millis(2);
  ack_echoing(peer, 5000, first_sent);
  EXPECT_EQ(peer.info().undone_reductions, 1u);
  EXPECT_GE(peer.info().cwnd_bytes, cwnd);
}

TEST(SpuriousRecovery, ReportOfMoreThanWasSentAgainDoesNotCount) {
  Peer peer;
  peer.dial();
  peer.app_send(10000);
  peer.all();
  peer.now += millis(10);
  peer.ack_with_sack(0, {{7000, 10000}});
  ASSERT_TRUE(peer.next()->is_retransmission);
  peer.ack_with_sack(0, {{0, 10000}, {0, 10000}});
  EXPECT_EQ(peer.info().undone_reductions, 0u);
  peer.ack_with_sack(0, {{0, 1000}, {0, 10000}});
  EXPECT_EQ(peer.info().undone_reductions, 1u);
}

/// A peer could repeat it while SND.UNA did not move: each pair of ACKs cost two passes over all
/// records.
TEST(SpuriousRecovery, AWindowOfDataIsUndoneSoManyTimes) {
  Peer peer;
  peer.dial();
  peer.app_send(10000);
  peer.all();
  for (uint32_t at = 0; at < 1000 * (kUndosPerWindowMax + 2u); at += 1000) {
    peer.now += millis(10);
    peer.ack_with_sack(0, {{7000, 10000}});
    (void)peer.next();  // one segment is sent again
    peer.ack_with_sack(0, {{at, at + 1000}, {0, 10000}});
  }
  EXPECT_EQ(peer.info().undone_reductions, kUndosPerWindowMax);
  peer.ack(10000);
  peer.app_send(10000);
  const uint32_t end = 10000 + 1000 * static_cast<uint32_t>(peer.all().size());
  for (int i = 0; i < 2; ++i) {  // the second one is later than the reordering window
    peer.now += millis(10);
    peer.ack_with_sack(10000, {{end - 3000, end}});
  }
  ASSERT_TRUE(peer.next()->is_retransmission);
  peer.ack_with_sack(10000, {{10000, 11000}, {10000, end}});
  EXPECT_EQ(peer.info().undone_reductions, kUndosPerWindowMax + 1u) << "another window";
}

/// Undo records are outside of the connection, with room for one per connection.
TEST(SpuriousRecovery, RoomForOneIsEnoughForOneConnectionAfterAnother) {
  Peer peer(Peer::plain_config(), {.connections_max = 1});
  for (int i = 0; i < 3; ++i) {
    peer.dial();
    peer.app_send(8000);
    peer.all();
    peer.now += millis(10);
    peer.ack_with_sack(0, {{1000, 4000}});
    EXPECT_EQ(peer.info().fast_recoveries, 1u);
    time_out(peer);  // a second reduction replaces the first
    (void)peer.engine.on_app_abort(peer.conn, peer.now);
    peer.engine.release(peer.conn);
  }
}

TEST(TailProbe, ReportedDuplicateAfterEverythingWasAcknowledgedCostsNothing) {  // RFC 8985 7.4.2
  Peer peer;
  peer.dial();
  peer.app_send(3000);
  peer.all();
  peer.run_deadline();
  ASSERT_TRUE(peer.next().has_value());
  const uint32_t cwnd = peer.info().cwnd_bytes;
  peer.ack(3000);
  peer.ack_with_sack(3000, {{2000, 3000}});  // nothing is outstanding any more
  peer.app_send(1000);
  peer.all();
  peer.now += millis(10);
  peer.ack(4000);
  EXPECT_GE(peer.info().cwnd_bytes, cwnd);
  EXPECT_EQ(peer.info().ssthresh_bytes, 1u << 30);
}

}  // namespace
}  // namespace lyre::tcp
