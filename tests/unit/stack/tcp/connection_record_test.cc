#include "stack/tcp/connection_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "stack/channel/abi.h"
#include "stack/tcp/connection_fields.h"
#include "tests/unit/stack/tcp/peer.h"

// What a client or a peer can bring about, a successor takes.
namespace lyre::tcp {
namespace {

/// Whether another engine takes the connection.
bool is_taken(Peer& peer) {
  record::Writer out;
  peer.engine.records().write(peer.conn, out);
  Engine successor({}, {}, 1);
  record::Reader in(out.bytes());
  return successor.records().read(peer.conn, peer.config.slot_bytes, peer.now, in) &&
         in.is_at_end();
}

void queue_all_that_a_client_may(Peer& peer) {
  for (uint32_t i = 0; i < channel::kSendsOutstandingMax; ++i) {
    peer.app_send(channel::kSendBytesMax);
  }
  peer.shutdown();
}

TEST(ConnectionRecord, HasAllThatAClientMayQueue) {
  Peer opening;
  opening.dial_only();
  queue_all_that_a_client_may(opening);
  EXPECT_TRUE(is_taken(opening));
  Peer blocked;
  blocked.dial();
  blocked.window = 0;
  blocked.ack(0);
  queue_all_that_a_client_may(blocked);
  EXPECT_TRUE(blocked.all().empty());
  EXPECT_TRUE(is_taken(blocked));
}

TEST(ConnectionRecord, HasWhatAFalseTimestampClaims) {
  ConnectionConfig config = Peer::plain_config();
  config.timestamps = true;
  config.user_timeout_ms = UINT32_MAX;
  Peer peer(config);
  peer.syn_options.has_timestamps = true;
  peer.syn_options.ts_value = 1;
  peer.dial();
  peer.app_send(1000);
  const uint32_t sent_with = peer.all().front().options.ts_value;
  while (peer.info().timeouts == 0) {
    peer.run_deadline();
    peer.all();
  }
  SegmentIn ack = peer.make(kA, 0, 1000);
  ack.options.has_timestamps = true;
  ack.options.ts_value = 1;
  ack.options.ts_echo = sent_with - 3'000'000'000;  // 35 days before
  peer.send(ack);
  EXPECT_EQ(peer.info().send_queue_bytes, 0u);
  EXPECT_TRUE(is_taken(peer));
}

TEST(ConnectionRecord, HasTheRoundOfAReaderThatHeardNothingForADay) {
  Peer peer;  // without timestamps
  peer.accept();
  peer.text(0, 100);
  peer.now += seconds(86'400);
  peer.window = 60000;
  for (uint32_t at = 100; at < 100'000; at += 1000) peer.text(at, 1000);
  EXPECT_TRUE(is_taken(peer));
}

// What the successor sends next would not be behind it in the order of time, by which RACK goes.
TEST(ConnectionRecord, IsRefusedWithDataThatWasSentInTheFuture) {  // RFC 8985 6.2
  Peer peer;
  peer.dial();
  peer.now += millis(1);
  peer.app_send(1000);
  ASSERT_EQ(peer.all().size(), 1u);
  EXPECT_TRUE(is_taken(peer));
  peer.now = peer.now - nanos(1);
  EXPECT_FALSE(is_taken(peer));
}

// The range of the state in records of this version: a release that lacks the state takes them.
TEST(ConnectionRecord, HasNoLossOfATestOfThePath) {
  const auto record_with = [](PathTest test) {
    std::vector<uint8_t> bytes;
    record::FieldWriter fields(bytes);
    SendState snd;
    snd.path_test = test;
    list_path_test(fields, std::as_const(snd));
    return bytes;
  };
  EXPECT_EQ(record_with(PathTest::kFullLost), record_with(PathTest::kFull));
  EXPECT_EQ(record_with(PathTest::kSearch), record_with(PathTest::kNone));
  EXPECT_EQ(record_with(PathTest::kSearchAgain), record_with(PathTest::kNone));
  EXPECT_NE(record_with(PathTest::kSmall), record_with(PathTest::kFull));
}

/// Writes `to` where the record has `from`.
void replace_time(std::vector<uint8_t>& record, Nanos from, Nanos to) {
  const auto bytes_of = [](Nanos at) {
    std::vector<uint8_t> bytes;
    record::FieldWriter(bytes).time(at);
    return bytes;
  };
  const std::vector<uint8_t> old = bytes_of(from);
  const auto found = std::search(record.begin(), record.end(), old.begin(), old.end());
  ASSERT_NE(found, record.end());
  const std::vector<uint8_t> replacement = bytes_of(to);
  std::copy(replacement.begin(), replacement.end(), found);
}

// An earlier daemon ran the tail loss probe instead of the timeout.
TEST(ConnectionRecord, GetsATimeoutWhereItHasATailProbeOnly) {  // RFC 6298 5.1
  Peer peer;
  peer.dial();
  peer.app_send(3000);
  peer.all();
  ASSERT_EQ(peer.info().waiting, Waiting::kTailProbe);
  record::Writer out;
  peer.engine.records().write(peer.conn, out);
  std::vector<uint8_t> bytes = out.bytes();
  replace_time(bytes, peer.now + peer.info().rto, kNever);
  Engine successor({}, {}, 1);
  record::Reader in(bytes);
  ASSERT_TRUE(successor.records().read(peer.conn, peer.config.slot_bytes, peer.now, in));
  successor.check_invariants(peer.conn);
  EXPECT_EQ(successor.info(peer.conn).waiting, Waiting::kTailProbe);
}

}  // namespace
}  // namespace lyre::tcp
