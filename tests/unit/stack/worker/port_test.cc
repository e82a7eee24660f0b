#include "stack/worker/port.h"

#include <gtest/gtest.h>

#include <vector>

#include "stack/io/sim/link.h"
#include "stack/io/sim/memory.h"

// One port over a wire with room for few frames: what waits, in which order, and who has it.
namespace lyre::worker {
namespace {

constexpr uint32_t kFramesMax = 10;

class PortTest : public testing::Test {
 protected:
  io::PacketBuf* packet(uint8_t mark) {
    io::PacketBuf* made = nullptr;
    EXPECT_EQ(memory.alloc_tx({&made, 1}), 1u);
    made->data[0] = mark;
    made->length = 60;
    return made;
  }
  /// `count` packets of sessions, marked from `mark` on.
  void queue(size_t count, uint8_t mark = 0) {
    for (size_t i = 0; i < count; ++i) {
      ASSERT_GT(port.session_room(), 0u);
      port.queue(packet(static_cast<uint8_t>(mark + i)));
    }
  }
  /// Empties the wire; the marks of what came over it.
  std::vector<uint8_t> arrived() {
    std::vector<uint8_t> marks;
    link.advance(now += micros(1));
    io::PacketBuf* burst[32];
    for (size_t count = far.receive(burst); count > 0; count = far.receive(burst)) {
      for (size_t i = 0; i < count; ++i) marks.push_back(burst[i]->data[0]);
      memory.release({burst, count});
    }
    return marks;
  }

  Nanos now = seconds(1);
  io::sim::Link link{{.frames_max = kFramesMax}};
  io::sim::Memory memory{{.rx_slots = 128, .tx_packets = 256}};
  Port port{link.add_queue(0, memory), 1500};
  Port far{link.add_queue(1, memory), 1500};
};

TEST_F(PortTest, KeepsWhatThePortDoesNotTakeInOrder) {
  queue(kFramesMax + 3);
  EXPECT_EQ(port.flush(), kFramesMax);
  ASSERT_EQ(port.waiting().size(), 3u);
  EXPECT_EQ(port.waiting()[0]->data[0], kFramesMax);
  std::vector<uint8_t> marks = arrived();
  port.begin_turn();
  EXPECT_EQ(port.flush(), 3u);
  for (const uint8_t mark : arrived()) marks.push_back(mark);
  ASSERT_EQ(marks.size(), kFramesMax + 3);
  for (size_t i = 0; i < marks.size(); ++i) EXPECT_EQ(marks[i], i);
  EXPECT_EQ(memory.tx_slots_free(), 256u) << "the port returned every packet";
}

TEST_F(PortTest, AFullPortIsNotOfferedMoreUntilTheNextTurn) {
  queue(kFramesMax + 1);
  EXPECT_EQ(port.flush(), kFramesMax);
  const uint64_t short_bursts = port.counters().tx_full;
  EXPECT_EQ(arrived().size(), kFramesMax);  // there would be room now
  EXPECT_EQ(port.flush(), 0u);
  port.begin_turn();
  EXPECT_EQ(port.flush(), 1u);
  EXPECT_EQ(port.counters().tx_full, short_bursts);
}

TEST_F(PortTest, APortThatTookEverythingIsOfferedMoreInTheSameTurn) {
  queue(2);
  EXPECT_EQ(port.flush(), 2u);
  queue(2);
  EXPECT_EQ(port.flush(), 2u);
  EXPECT_EQ(port.flush(), 0u);
}

TEST_F(PortTest, SessionsLeaveTheReserveToTheWorker) {
  queue(kFramesMax);
  port.flush();
  queue(kTxBurstPackets);
  EXPECT_EQ(port.session_room(), 0u) << "the wire is full, so flushing made no room";
  EXPECT_EQ(port.waiting().size(), kTxBurstPackets);
  for (size_t i = 0; i < kTxReservePackets; ++i) EXPECT_TRUE(port.try_send(packet(0)));
  io::PacketBuf* refused = packet(0);
  EXPECT_FALSE(port.try_send(refused));
  memory.release({&refused, 1});
  EXPECT_EQ(port.waiting().size(), kTxBurstPackets + kTxReservePackets);
  memory.release(port.waiting());
}

TEST_F(PortTest, RoomIsMadeByFlushing) {
  queue(kTxBurstPackets);
  EXPECT_EQ(port.session_room(), kFramesMax);
  EXPECT_EQ(port.waiting().size(), kTxBurstPackets - kFramesMax);
  memory.release(port.waiting());
}

TEST_F(PortTest, TellsWhatItsPortIs) {
  EXPECT_EQ(port.mac(), link.queue(0, 0).capabilities().mac);
  EXPECT_EQ(port.mtu_bytes(), 1500u);
  EXPECT_EQ(port.counters().tx_packets, 0u);
}

}  // namespace
}  // namespace lyre::worker
