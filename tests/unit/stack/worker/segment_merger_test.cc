#include "stack/worker/segment_merger.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "stack/ip/output.h"
#include "stack/worker/payload_chain.h"
#include "tests/unit/stack/ip/frame_builder.h"

// Which segments become one, what the merged segment says, and whose packets they are. Frames are
// real ones, so that the parsed way and the one by headers see the same.
namespace lyre::worker {
namespace {

using Append = SegmentMerger::Append;
using wire::TcpFlags;

constexpr uint32_t kSlotBytes = 2048;
constexpr uint32_t kSeq = 1000;
constexpr uint32_t kBytes = 600;

FourTuple tuple_of(uint16_t port) { return {{ip::kOwnIp, 80}, {ip::kPeerIp, port}}; }

/// One segment as it arrives: a frame in a slot, and what parsing finds in it.
struct Arrival {
  std::vector<uint8_t> frame;
  io::PacketBuf packet;
  tcp::SegmentIn segment;
  FourTuple tuple;

  std::span<const uint8_t> headers() const { return std::span(frame).first(header_bytes()); }
  std::span<const uint8_t> payload() const { return std::span(frame).subspan(header_bytes()); }
  size_t header_bytes() const { return frame.size() - segment.payload_bytes; }
};

/// What a segment says.
struct Shape {
  uint32_t seq = kSeq;
  uint8_t flags = TcpFlags::kAck;
  uint32_t ack = 500;
  uint16_t window = 64;
  uint32_t ts_value = 7;
  uint32_t ts_echo = 3;
  wire::Ecn ecn = wire::Ecn::kNotEct;
  uint32_t bytes = kBytes;
  uint16_t port = 4000;
};

class SegmentMergerTest : public testing::Test {
 protected:
  Arrival& arrival(const Shape& shape) {
    auto made = std::make_unique<Arrival>();
    ip::TcpOutput out;
    out.frame = {ip::kPeerMac, ip::kOwnMac};
    out.tuple = {{ip::kPeerIp, shape.port}, {ip::kOwnIp, 80}};
    out.header.seq = SeqNum(shape.seq);
    out.header.ack = SeqNum(shape.ack);
    out.header.flags.bits = shape.flags;
    out.header.window = shape.window;
    out.header.options.has_timestamps = true;
    out.header.options.ts_value = shape.ts_value;
    out.header.options.ts_echo = shape.ts_echo;
    out.payload_bytes = shape.bytes;
    out.ecn = shape.ecn;
    made->frame = ip::tcp_frame(out);
    made->packet = ip::received(made->frame);
    made->packet.slot = next_slot_++;
    made->tuple = tuple_of(shape.port);
    made->segment = {.seq = out.header.seq,
                     .ack = out.header.ack,
                     .flags = out.header.flags,
                     .window = shape.window,
                     .options = out.header.options,
                     .payload = {.slot = made->packet.slot},
                     .payload_bytes = shape.bytes,
                     .charge_bytes = kSlotBytes,
                     .ecn = shape.ecn};
    arrivals_.push_back(std::move(made));
    return *arrivals_.back();
  }
  Arrival& begin(const Shape& shape = {}) {
    Arrival& first = arrival(shape);
    begin_with(first);
    return first;
  }
  void begin_with(Arrival& first) {
    ASSERT_TRUE(SegmentMerger::may_begin(first.segment));
    const std::span<const uint8_t> headers = first.headers();
    reduce_to_payload(first.packet, first.payload());
    merger.begin({.conn = 5,
                  .tuple = first.tuple,
                  .segment = first.segment,
                  .headers = headers,
                  .last = &first.packet});
  }
  Append append(Arrival& next) {
    return merger.try_append(*merger.find(next.tuple), next.segment, next.packet, next.payload());
  }

  SegmentMerger merger{kSlotBytes};

 private:
  std::vector<std::unique_ptr<Arrival>> arrivals_;
  uint32_t next_slot_ = 10;
};

TEST_F(SegmentMergerTest, OnlyPayloadWithAckAloneMayBegin) {
  EXPECT_TRUE(SegmentMerger::may_begin(arrival({}).segment));
  EXPECT_FALSE(SegmentMerger::may_begin(arrival({.bytes = 0}).segment)) << "a pure ACK";
  for (const uint8_t flag : {TcpFlags::kPsh, TcpFlags::kFin, TcpFlags::kSyn, TcpFlags::kRst,
                             TcpFlags::kUrg, TcpFlags::kEce, TcpFlags::kCwr}) {
    const Arrival& flagged = arrival({.flags = static_cast<uint8_t>(TcpFlags::kAck | flag)});
    EXPECT_FALSE(SegmentMerger::may_begin(flagged.segment)) << int{flag};
  }
  tcp::SegmentIn with_sack = arrival({}).segment;
  with_sack.options.sack_count = 1;
  EXPECT_FALSE(SegmentMerger::may_begin(with_sack));
}

/// Also one whose length field names the first slot only, so that its headers match.
TEST_F(SegmentMergerTest, ASuperPacketIsNotMerged) {
  begin();
  Arrival& next = arrival({.seq = kSeq + kBytes});
  next.packet.rest_slots = 1;
  next.packet.rest_bytes = 500;
  EXPECT_FALSE(merger.try_append_unparsed(next.packet));
  EXPECT_EQ(append(next), Append::kRefused);
}

TEST_F(SegmentMergerTest, TheMergedSegmentIsTheSumOfItsPackets) {
  Arrival& first = begin();
  Arrival& second = arrival({.seq = kSeq + kBytes, .window = 65});
  Arrival& third = arrival({.seq = kSeq + 2 * kBytes, .window = 66, .bytes = 30});
  EXPECT_EQ(append(second), Append::kAppended);
  EXPECT_EQ(append(third), Append::kAppended);
  const MergedSegment merged = merger.take(*merger.find(tuple_of(4000)));
  EXPECT_EQ(merged.conn, 5u);
  EXPECT_EQ(merged.segment.seq, SeqNum(kSeq));
  EXPECT_EQ(merged.segment.payload_bytes, 2 * kBytes + 30);
  EXPECT_EQ(merged.segment.charge_bytes, 3 * kSlotBytes);
  EXPECT_EQ(merged.segment.segment_count, 3u);
  EXPECT_EQ(merged.segment.window, 66) << "the latest counts";
  EXPECT_EQ(merged.segment.payload.slot, first.packet.slot);
  EXPECT_EQ(first.packet.next_slot, second.packet.slot);
  EXPECT_EQ(second.packet.next_slot, third.packet.slot);
  EXPECT_EQ(third.packet.next_slot, io::PacketBuf::kNoSlot);
  EXPECT_EQ(second.packet.data, second.payload().data());
  EXPECT_EQ(second.packet.length, kBytes);
  EXPECT_TRUE(merger.is_empty());
}

// Each would hold a slot: their payloads are copied together instead, where they are not read.
TEST_F(SegmentMergerTest, SmallPayloadsAreNotChained) {
  begin();
  EXPECT_EQ(append(arrival({.seq = kSeq + kBytes, .bytes = 30})), Append::kAppended);
  Arrival& next = arrival({.seq = kSeq + kBytes + 30, .bytes = 30});
  EXPECT_FALSE(merger.try_append_unparsed(next.packet));
  EXPECT_EQ(append(next), Append::kRefused);
}

TEST_F(SegmentMergerTest, PushEndsIt) {
  begin();
  EXPECT_EQ(append(arrival({.seq = kSeq + kBytes, .flags = TcpFlags::kAck | TcpFlags::kPsh})),
            Append::kLast);
  const MergedSegment merged = merger.take_oldest();
  EXPECT_TRUE(merged.segment.flags.has(TcpFlags::kPsh));
  EXPECT_EQ(merged.segment.segment_count, 2u);
}

TEST_F(SegmentMergerTest, WhatDiffersIsRefused) {
  begin();
  const uint32_t next = kSeq + kBytes;
  const struct {
    const char* what;
    Shape shape;
  } kCases[] = {
      {"a gap", {.seq = next + 1}},
      {"an overlap", {.seq = next - 1}},
      {"a repetition", {.seq = kSeq}},
      {"another ACK", {.seq = next, .ack = 501}},
      {"another timestamp", {.seq = next, .ts_value = 8}},
      {"another timestamp echo", {.seq = next, .ts_echo = 4}},
      {"a congestion mark", {.seq = next, .ecn = wire::Ecn::kCe}},
      {"an end", {.seq = next, .flags = TcpFlags::kAck | TcpFlags::kFin}},
      {"an urgent pointer", {.seq = next, .flags = TcpFlags::kAck | TcpFlags::kUrg}},
      {"an ECN echo", {.seq = next, .flags = TcpFlags::kAck | TcpFlags::kEce}},
      {"a reset", {.seq = next, .flags = TcpFlags::kAck | TcpFlags::kRst}},
      {"no payload", {.seq = next, .bytes = 0}},
  };
  for (const auto& refused : kCases) {
    Arrival& other = arrival(refused.shape);
    EXPECT_EQ(append(other), Append::kRefused) << refused.what;
    EXPECT_FALSE(merger.try_append_unparsed(other.packet)) << refused.what;
    EXPECT_EQ(other.packet.length, other.frame.size()) << refused.what << ": not touched";
  }
  Arrival& with_sack = arrival({.seq = next});
  with_sack.segment.options.sack_count = 1;
  EXPECT_EQ(append(with_sack), Append::kRefused);
  const MergedSegment merged = merger.take_oldest();
  EXPECT_EQ(merged.segment.segment_count, 1u);
  EXPECT_EQ(merged.segment.payload_bytes, kBytes);
}

TEST_F(SegmentMergerTest, HeadersThatMatchNeedNoParsing) {
  begin();
  begin({.seq = 9000, .port = 4001});
  EXPECT_TRUE(merger.try_append_unparsed(arrival({.seq = 9000 + kBytes, .port = 4001}).packet));
  Arrival& second = arrival({.seq = kSeq + kBytes});
  EXPECT_TRUE(merger.try_append_unparsed(second.packet));
  EXPECT_EQ(second.packet.data, second.payload().data());
  EXPECT_EQ(append(arrival({.seq = kSeq + 2 * kBytes})), Append::kAppended);
  EXPECT_EQ(merger.take_oldest().segment.segment_count, 3u);
  EXPECT_EQ(merger.take_oldest().segment.segment_count, 2u);
}

// A segment whose headers match those of the first must not hide the window of one in between.
TEST_F(SegmentMergerTest, TheLatestWindowCountsWhateverWayASegmentCame) {
  begin({.window = 64});
  EXPECT_EQ(append(arrival({.seq = kSeq + kBytes, .window = 90})), Append::kAppended);
  Arrival& third = arrival({.seq = kSeq + 2 * kBytes, .window = 64});
  if (!merger.try_append_unparsed(third.packet)) {
    EXPECT_EQ(append(third), Append::kAppended);
  }
  EXPECT_EQ(merger.take_oldest().segment.window, 64);
}

TEST_F(SegmentMergerTest, ManyConnectionsWaitAndTheOldestIsFirst) {
  for (uint16_t i = 0; i < kMergedSegmentsMax; ++i) {
    EXPECT_FALSE(merger.is_full());
    EXPECT_EQ(merger.find(tuple_of(i)), nullptr);
    begin({.port = i});
  }
  EXPECT_TRUE(merger.is_full());
  EXPECT_EQ(merger.take(*merger.find(tuple_of(3))).tuple, tuple_of(3));
  EXPECT_EQ(merger.find(tuple_of(3)), nullptr);
  for (uint16_t i = 0; i < kMergedSegmentsMax; ++i) {
    if (i == 3) continue;
    EXPECT_EQ(merger.take_oldest().tuple, tuple_of(i));
  }
  EXPECT_TRUE(merger.is_empty());
}

}  // namespace
}  // namespace lyre::worker
