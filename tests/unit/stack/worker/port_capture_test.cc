#include "stack/worker/port_capture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "stack/io/sim/link.h"
#include "stack/io/sim/memory.h"
#include "stack/worker/port.h"

// A port over a wire with room for few frames, whose packets are captured.
namespace lyre::worker {
namespace {

constexpr uint32_t kWireFramesMax = 10;
constexpr uint32_t kSnapBytes = 100;
constexpr uint32_t kClient = 3;
constexpr uint32_t kLargeBytes = 1400;

class PortCaptureTest : public testing::Test {
 protected:
  PortCaptureTest() {
    std::iota(client_bytes.begin(), client_bytes.end(), uint8_t{0});
    clients.add_arena(kClient, client_bytes.data(), client_bytes.size());
    memory.add_region(kClient, {client_bytes.data(), client_bytes.size()});
    capture.begin({.now = &now, .unix_offset_ns = 1'000'000, .clients = &clients});
    port.set_capture(&capture);
  }

  io::PacketBuf* packet(uint8_t mark, uint32_t bytes = 60) {
    io::PacketBuf* made = nullptr;
    EXPECT_EQ(memory.alloc_tx({&made, 1}), 1u);
    std::fill_n(made->data, bytes, mark);
    made->length = bytes;
    return made;
  }
  /// 1400 bytes, most of them the client's.
  io::PacketBuf* large_packet() {
    io::PacketBuf* made = packet(1, 54);
    made->pieces[0] = {.region = kClient, .length = kLargeBytes - 54, .offset = 0};
    made->piece_count = 1;
    return made;
  }
  void queue(size_t count, uint8_t mark = 0) {
    for (size_t i = 0; i < count; ++i) {
      ASSERT_GT(port.session_room(), 0u);
      port.queue(packet(static_cast<uint8_t>(mark + i)));
    }
  }
  /// What came over the wire is released. Returns how many.
  size_t empty_wire(Port& end) {
    link.advance(now += micros(1));
    io::PacketBuf* burst[32];
    const size_t count = end.receive(burst);
    memory.release({burst, count});
    return count;
  }
  /// The marks of the packets that the reader gets.
  std::vector<uint8_t> captured(channel::CaptureDirection direction) {
    std::vector<uint8_t> marks;
    while (reader.try_take(taken)) {
      EXPECT_EQ(taken.record.direction, direction);
      marks.push_back(taken.bytes.at(0));
    }
    return marks;
  }

  Nanos now = seconds(1);
  std::vector<uint8_t> client_bytes = std::vector<uint8_t>(2048);
  io::sim::Link link{{.frames_max = kWireFramesMax}};
  io::sim::Memory memory{{.rx_slots = 128, .tx_packets = 256}};
  Port port{link.add_queue(0, memory), 1500};
  Port far{link.add_queue(1, memory), 1500};
  ClientMemory clients;
  std::unique_ptr<channel::CaptureRing> ring = std::make_unique<channel::CaptureRing>();
  PortCapture capture{*ring, kSnapBytes};
  channel::CaptureConsumer reader{*ring};
  channel::CapturedPacket taken;
};

TEST_F(PortCaptureTest, WhatThePortTookIsSeenOnceAndInOrder) {
  queue(kWireFramesMax + 3);
  EXPECT_EQ(port.flush(), kWireFramesMax);
  const auto first = captured(channel::CaptureDirection::kSent);
  ASSERT_EQ(first.size(), kWireFramesMax);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i], i);
  port.begin_turn();
  EXPECT_EQ(port.flush(), 0u) << "the wire is full";
  EXPECT_TRUE(captured(channel::CaptureDirection::kSent).empty());
  empty_wire(far);
  port.begin_turn();
  EXPECT_EQ(port.flush(), 3u);
  EXPECT_EQ(captured(channel::CaptureDirection::kSent), (std::vector<uint8_t>{10, 11, 12}));
}

TEST_F(PortCaptureTest, WhatIsReceivedIsSeenWithTheTimeOfTheTurn) {
  far.queue(packet(7));
  far.flush();
  EXPECT_EQ(empty_wire(port), 1u);
  ASSERT_TRUE(reader.try_take(taken));
  EXPECT_EQ(taken.record.direction, channel::CaptureDirection::kReceived);
  EXPECT_EQ(taken.record.unix_ns, now.value + 1'000'000);
  EXPECT_EQ(taken.record.packet_bytes, 60u);
  EXPECT_EQ(taken.bytes, std::vector<uint8_t>(60, 7));
}

TEST_F(PortCaptureTest, PiecesOfClientMemoryFollowTheHeadersUpToTheSnapLength) {
  io::PacketBuf* sent = packet(1, 54);
  sent->pieces[0] = {.region = kClient, .length = 10, .offset = 20};
  sent->pieces[1] = {.region = kClient, .length = 100, .offset = 100};
  sent->piece_count = 2;
  port.queue(sent);
  EXPECT_EQ(port.flush(), 1u);
  ASSERT_TRUE(reader.try_take(taken));
  EXPECT_EQ(taken.record.packet_bytes, 164u);
  ASSERT_EQ(taken.bytes.size(), kSnapBytes);
  EXPECT_EQ(taken.bytes[53], 1);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(taken.bytes[54 + i], 20 + i);
  for (size_t i = 0; i < 36; ++i) EXPECT_EQ(taken.bytes[64 + i], 100 + i);
}

TEST_F(PortCaptureTest, PacketsWithoutRoomAreCountedOnceThePortTookThem) {
  PortCapture large(*ring, channel::kSnapBytesMax);
  large.begin({.now = &now, .unix_offset_ns = 0, .clients = &clients});
  port.set_capture(&large);
  const uint64_t rooms = channel::kCaptureRingBytes / channel::capture_bytes_of(kLargeBytes);
  uint64_t sent = 0;
  while (sent < rooms + 5) {
    port.queue(large_packet());
    sent += port.flush();
    empty_wire(far);
    port.begin_turn();
  }
  EXPECT_EQ(reader.dropped(), 5u);
  for (size_t i = 0; i < kWireFramesMax + 2; ++i) port.queue(large_packet());
  EXPECT_EQ(port.flush(), kWireFramesMax);
  EXPECT_EQ(reader.dropped(), 5u + kWireFramesMax);
  memory.release(port.waiting());
}

TEST_F(PortCaptureTest, NothingIsSeenWithoutACapture) {
  port.set_capture(nullptr);
  queue(2);
  EXPECT_EQ(port.flush(), 2u);
  far.queue(packet(7));
  far.flush();
  EXPECT_EQ(empty_wire(port), 1u);
  EXPECT_FALSE(reader.try_take(taken));
}

}  // namespace
}  // namespace lyre::worker
