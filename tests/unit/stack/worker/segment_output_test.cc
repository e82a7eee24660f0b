#include "stack/worker/segment_output.h"

#include <gtest/gtest.h>

#include "tests/unit/stack/worker/worker_parts.h"

namespace lyre::worker {
namespace {

constexpr size_t kHeaderBytes = 14 + 20 + 20;
constexpr size_t kFlagsAt = 14 + 20 + 13;

class SegmentOutputTest : public WorkerParts {
 protected:
  explicit SegmentOutputTest(const io::sim::LinkOptions& options = {}) : WorkerParts(options) {
    attach();
    conn_ = open();
    for (uint32_t i = 0; i < kArenaBytes; ++i) arena[i] = static_cast<uint8_t>(i % 251);
  }
  /// The session has these bytes of the arena to send.
  void queue(uint64_t offset, uint32_t bytes) {
    EXPECT_TRUE(state.sends.try_append(state.session(conn_).sends,
                                       {.region = kContext, .length = bytes, .offset = offset}));
  }
  static std::vector<uint8_t> payload_of(const std::vector<uint8_t>& frame, size_t bytes) {
    return {frame.begin() + kHeaderBytes, frame.begin() + kHeaderBytes + static_cast<long>(bytes)};
  }
  std::vector<uint8_t> arena_at(size_t offset, size_t bytes) const {
    return {arena + offset, arena + offset + bytes};
  }
  static constexpr tcp::SegmentOut segment(uint32_t bytes, uint16_t mss) {
    return {.flags = {wire::TcpFlags::kAck | wire::TcpFlags::kPsh | wire::TcpFlags::kFin |
                      wire::TcpFlags::kCwr},
            .payload_bytes = bytes,
            .mss_bytes = mss};
  }
  uint32_t conn_ = 0;
};

TEST_F(SegmentOutputTest, ASegmentWithoutPayloadIsOnePacket) {
  EXPECT_EQ(segment_output.send(conn_, segment(0, 1000), kPeerMac), 1u);
  EXPECT_EQ(take_frames().size(), 1u);
}

TEST_F(SegmentOutputTest, PayloadComesFromWhereTheClientHasIt) {
  queue(5'000, 300);
  queue(9'000, 300);
  tcp::SegmentOut out = segment(400, 1000);
  out.queue_offset = 100;
  EXPECT_EQ(segment_output.send(conn_, out, kPeerMac), 1u);
  const auto frames = take_frames();
  ASSERT_EQ(frames.size(), 1u);
  std::vector<uint8_t> expected = arena_at(5'100, 200);
  const std::vector<uint8_t> rest = arena_at(9'000, 200);
  expected.insert(expected.end(), rest.begin(), rest.end());
  EXPECT_EQ(payload_of(frames[0], 400), expected);
}

TEST_F(SegmentOutputTest, ALargeSegmentIsCutAndOnlyItsEndsHaveTheirFlags) {
  using wire::TcpFlags;
  queue(0, 1'000);
  EXPECT_EQ(segment_output.send(conn_, segment(1'000, 400), kPeerMac), 3u);
  const auto frames = take_frames();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(payload_of(frames[1], 400), arena_at(400, 400));
  EXPECT_EQ(payload_of(frames[2], 200), arena_at(800, 200));
  EXPECT_EQ(frames[0][kFlagsAt], TcpFlags::kAck | TcpFlags::kCwr);
  EXPECT_EQ(frames[1][kFlagsAt], TcpFlags::kAck);
  EXPECT_EQ(frames[2][kFlagsAt], TcpFlags::kAck | TcpFlags::kPsh | TcpFlags::kFin);
}

TEST_F(SegmentOutputTest, WithoutABufferTheRestIsCountedAsLost) {
  queue(0, 1'000);
  std::vector<io::PacketBuf*> all;
  while (io::PacketBuf* packet = output.alloc()) all.push_back(packet);
  output.put_back(all.back());
  all.pop_back();
  EXPECT_EQ(segment_output.send(conn_, segment(1'000, 400), kPeerMac), 1u);
  EXPECT_EQ(drops(Drop::kTxNoBuffer), 1u);
  memory.release(all);
}

TEST_F(SegmentOutputTest, WhatIsSentAgainIsCopiedSoThatItsAckFreesTheMemory) {
  queue(0, 400);
  tcp::SegmentOut again = segment(400, 400);
  again.is_retransmission = true;
  EXPECT_EQ(segment_output.send(conn_, again, kPeerMac), 1u);
  EXPECT_TRUE(state.session(conn_).was_retransmitted);
  EXPECT_EQ(state.session(conn_).fence, 0u) << "no port reads the memory later than the ACK";
  EXPECT_EQ(memory.region_holds(kContext), 0u);
}

class OneBuffer : public SegmentOutputTest {
 protected:
  OneBuffer() : SegmentOutputTest({.tx_pieces_max = 1}) {}
};

TEST_F(OneBuffer, WhatThePortCannotGatherIsCopiedAndCounted) {
  for (uint64_t i = 0; i < 4; ++i) queue(1'000 * i, 100);
  const uint64_t copied = stats.copied_tx_bytes.get();
  EXPECT_EQ(segment_output.send(conn_, segment(400, 400), kPeerMac), 1u);
  EXPECT_EQ(stats.copied_tx_bytes.get() - copied, 400u);
  const auto frames = take_frames();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(payload_of(frames[0], 400)[399], arena[3'099]);
}

}  // namespace
}  // namespace lyre::worker
