#include "stack/worker/transmission.h"

#include <gtest/gtest.h>

#include "tests/unit/stack/worker/worker_parts.h"

namespace lyre::worker {
namespace {

class TransmissionTest : public WorkerParts {
 protected:
  TransmissionTest() { attach(); }
};

TEST_F(TransmissionTest, WithoutSessionsThereIsNothingToDo) {
  EXPECT_FALSE(transmission.has_work());
  EXPECT_EQ(transmission.transmit(), 0u);
  EXPECT_EQ(transmission.next_deadline(), kNever);
}

TEST_F(TransmissionTest, ASessionWaitsForItsNeighbourAndTcpIsNotAsked) {
  const uint32_t conn = open();
  EXPECT_TRUE(transmission.has_work());
  EXPECT_EQ(transmission.transmit(), 0u);
  EXPECT_FALSE(transmission.has_work());
  EXPECT_EQ(stats.tcp_segments_out.get(), 0u);
  EXPECT_TRUE(state.engine.is_open(conn));
}

TEST_F(TransmissionTest, ANeighbourThatIsLearnedWakesIt) {
  open();
  transmission.transmit();
  learn_peer();
  EXPECT_EQ(transmission.transmit(), 1u);
  EXPECT_EQ(stats.tcp_segments_out.get(), 1u);
  EXPECT_FALSE(transmission.has_work());
}

TEST_F(TransmissionTest, EachSessionHasItsTurn) {
  learn_peer();
  for (uint32_t i = 0; i < kConnectionsMax; ++i) open();
  EXPECT_EQ(transmission.transmit(), size_t{kConnectionsMax});
  EXPECT_EQ(take_frames().size(), size_t{kConnectionsMax});
}

class FullPort : public WorkerParts {
 protected:
  FullPort() : WorkerParts({.frames_max = 1}) { attach(); }
};

TEST_F(FullPort, SessionsWhosePortTakesNothingAreTriedAgainByDeadline) {
  learn_peer();
  while (state.ports[0].session_room() > 0) {  // the wire, and what may wait for it
    io::PacketBuf* packet = output.alloc();
    ASSERT_NE(packet, nullptr);
    packet->length = 60;
    state.ports[0].queue(packet);
  }
  open();
  EXPECT_EQ(transmission.transmit(), 0u);
  EXPECT_FALSE(transmission.has_work()) << "not before the deadline";
  EXPECT_EQ(transmission.next_deadline(), state.now + kTransmitRetryFirst);
  state.now = transmission.next_deadline();
  EXPECT_EQ(transmission.transmit(), 0u);
  EXPECT_GT(transmission.next_deadline() - state.now, kTransmitRetryFirst) << "then later";
}

}  // namespace
}  // namespace lyre::worker
