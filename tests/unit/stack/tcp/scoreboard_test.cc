#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "stack/base/rng.h"
#include "stack/tcp/record_index.h"
#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

/// Sends ten segments of 1000 bytes at once.
void send_ten_segments(Peer& peer) {
  peer.dial();
  peer.app_send(20000);
  ASSERT_EQ(peer.all().size(), 10u);
  peer.now += millis(10);
}

TEST(Scoreboard, SackBlocksAreRoundedToSegments) {
  Peer peer;
  send_ten_segments(peer);
  peer.ack_with_sack(0, {{1001, 1999}, {4000, 4999}});  // no whole segment
  EXPECT_EQ(peer.info().in_flight_bytes, 10000u);
  peer.ack_with_sack(0, {{1999, 4001}, {6000, 6500}});  // two whole ones
  EXPECT_EQ(peer.info().in_flight_bytes, 8000u);
  peer.ack(10000);
  EXPECT_EQ(peer.info().in_flight_bytes, 0u);
}

TEST(Scoreboard, SegmentsOfSeveralSizesKeepTheirBounds) {
  Peer peer;
  peer.dial();
  for (const uint32_t bytes : {300u, 1500u, 1000u}) {  // as 300, 1000 and 500, 1000, at one time
    peer.app_send(bytes);
    peer.all();
  }
  peer.now += millis(10);
  peer.ack_with_sack(0, {{300, 1300}});
  EXPECT_EQ(peer.info().in_flight_bytes, 1800u);
  peer.ack_with_sack(0, {{1300, 1800}});
  EXPECT_EQ(peer.info().in_flight_bytes, 1300u);
}

TEST(Scoreboard, AnAckInsideASegmentLeavesTheOtherBounds) {
  Peer peer;
  send_ten_segments(peer);
  peer.ack(1500);
  peer.all();
  peer.ack_with_sack(1500, {{2000, 3000}, {4000, 5000}});
  EXPECT_EQ(peer.info().in_flight_bytes, peer.info().bytes_sent - 1500 - 2000);
}

TEST(Scoreboard, AFinIsNoPartOfTheSegmentBeforeIt) {
  Peer peer;
  peer.dial();
  peer.app_send(3000);
  peer.shutdown();
  peer.all();
  peer.ack_with_sack(0, {{1000, 3000}});  // some receivers do not report the FIN
  EXPECT_EQ(peer.info().in_flight_bytes, 1001u);
  peer.ack_with_sack(0, {{1000, 3001}});
  EXPECT_EQ(peer.info().in_flight_bytes, 1000u);
}

/// Two connections of one engine, each with a peer of its own.
class TwoPeers {
 public:
  TwoPeers() {
    for (uint32_t i = 0; i < 2; ++i) {
      const FourTuple tuple{.local = {IpAddress::v4(1), static_cast<uint16_t>(1000 + i)},
                            .remote = {IpAddress::v4(2), 2000}};
      conns[i] = engine.open_active(tuple, config(), now);
      iss[i] = engine.poll_transmit(conns[i], 0, now)->seq;
      SegmentIn answer = from_peer(i, 0);
      answer.flags.bits = kSA;
      answer.seq = SeqNum(0);
      answer.options.mss = 1000;
      answer.options.sack_permitted = true;
      answer.options.window_scale = 7;
      deliver(i, answer);
    }
  }

  static ConnectionConfig config() {
    ConnectionConfig config = Peer::plain_config();
    config.window_scaling = true;
    return config;
  }
  SegmentIn from_peer(uint32_t i, uint32_t ack_at) const {
    SegmentIn segment;
    segment.seq = SeqNum(1);
    segment.ack = iss[i] + 1 + ack_at;
    segment.flags.bits = kA;
    segment.window = 60000;
    return segment;
  }
  void deliver(uint32_t i, const SegmentIn& segment) {
    (void)engine.on_segment(conns[i], segment, now);
    engine.check_invariants(conns[i]);
    send(i);
  }
  void send(uint32_t i) {
    now += micros(1);
    while (engine.poll_transmit(conns[i], 0, now)) {
    }
  }
  void sack(uint32_t i, uint32_t from, uint32_t to) {
    SegmentIn segment = from_peer(i, 0);
    segment.options.sacks[segment.options.sack_count++] = {.start = iss[i] + 1 + from,
                                                           .end = iss[i] + 1 + to};
    deliver(i, segment);
  }
  /// Sends some text and has it acknowledged, until `segments` are on their way.
  void fill(uint32_t i, uint32_t segments) {
    (void)engine.on_app_send(conns[i], 1000 * segments, now);
    send(i);
  }

  Engine engine{{.connections_max = 2, .sent_records_max = 64, .received_runs_max = 64},
                {.k0 = 1, .k1 = 2},
                1};
  std::array<ConnId, 2> conns{};
  std::array<SeqNum, 2> iss{};
  Nanos now = seconds(1);
};

TEST(Scoreboard, OneConnectionCannotTakeEveryRecord) {
  TwoPeers peers;
  peers.fill(0, 10000);
  // Each second byte, over and over, while the window grows: no byte of the pool may go into it.
  for (uint32_t at = 1; at < 10000; at += 2) peers.sack(0, at, at + 1);
  for (uint32_t at = 1000; at < 10000; at += 2000) peers.sack(0, at, at + 1000);
  peers.fill(1, 10);
  peers.sack(1, 1000, 2000);
  EXPECT_EQ(peers.engine.info(peers.conns[1]).in_flight_bytes, 9000u);
}

/// The connection's records as a list, without an engine.
struct Records {
  explicit Records(uint32_t count) : slab(count) {
    for (uint32_t i = 0; i < count; ++i) append();
  }
  void append() {
    const uint32_t index = slab.take();
    SentRecord& record = slab[index];
    record.start = end;
    end += 1000;
    record.end = end;
    record.seq_prev = tail;
    if (tail != kNoNode) slab[tail].seq_next = index;
    tail = index;
  }
  uint32_t depth(uint32_t index) const {
    uint32_t depth = 0;
    for (; index != kNoNode; index = slab[index].parent) ++depth;
    return depth;
  }

  Slab<SentRecord> slab;
  uint32_t tail = kNoNode;
  uint32_t root = kNoNode;
  SeqNum end{0xffff0000u};  // wraps on the way
};

TEST(RecordIndex, FindsTheRecordOfEachByte) {
  Records records(100);
  RecordIndex index(records.slab, records.root, 5);
  const SeqNum start = records.slab[0].start;
  EXPECT_EQ(index.find(records.tail, start - 1), 0u);
  for (uint32_t at = 0; at < 100'000; at += 333) {
    EXPECT_EQ(index.find(records.tail, start + at), at / 1000);
  }
  EXPECT_EQ(index.find(records.tail, start + 100'000), kNoNode);
}

TEST(RecordIndex, DepthIsLogarithmic) {
  constexpr uint32_t kCount = 1 << 14;
  for (const uint64_t seed : {1u, 2u, 3u}) {
    Records records(kCount);
    RecordIndex index(records.slab, records.root, seed);
    index.find(records.tail, records.end);
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < kCount; ++i) deepest = std::max(deepest, records.depth(i));
    EXPECT_LE(deepest, 4u * std::bit_width(kCount));  // some 2.5 times is usual
  }
}

TEST(RecordIndex, ErasedRecordsAreNotFound) {
  Records records(1000);
  RecordIndex index(records.slab, records.root, 5);
  const SeqNum start = records.slab[0].start;
  index.find(records.tail, start);
  std::vector<bool> is_there(1001, true);
  Rng rng(3);
  for (uint32_t i = 0; i < 900; ++i) {
    const auto victim = static_cast<uint32_t>(rng.below(1000));
    index.erase(victim);  // without effect the second time
    is_there[victim] = false;
  }
  for (uint32_t at = 0; at < 1000; ++at) {
    uint32_t expected = at;
    while (expected < 1000 && !is_there[expected]) ++expected;
    EXPECT_EQ(index.find(kNoNode, start + at * 1000), expected < 1000 ? expected : kNoNode);
  }
}

}  // namespace
}  // namespace lyre::tcp
