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
  FullPort() : WorkerParts({.frames_max = 1}) {
    attach();
    learn_peer();
    while (state.ports[0].session_room() > 0) {  // the wire, and what may wait for it
      io::PacketBuf* packet = output.alloc();
      LYRE_CHECK(packet != nullptr);
      packet->length = 60;
      state.ports[0].queue(packet);
    }
  }
};

/// Another port has room, and another client a session there.
class FullPortBesideAnother : public FullPort {
 protected:
  static constexpr uint32_t kOther = 1;

  FullPortBesideAnother() {
    neighbourhood.add_port({.io = &second_link.add_queue(0, memory, 1),
                            .addresses = {InterfaceAddress::of(kSecondOwn, 24)},
                            .mtu_bytes = 1500});
    neighbourhood.update_routes();
    learn(1, kSecondPeer.address, kSecondOwn);
    attach(kOther);
  }
  static inline const IpAddress kSecondOwn = IpAddress::v4(0x0a0a0001);
  static inline const Endpoint kSecondPeer{IpAddress::v4(0x0a0a0002), 80};

  io::sim::Link second_link{{}};
};

// A client's turns come in a row: a round of all sessions is more than that many turns.
TEST_F(FullPortBesideAnother, DelaysOnlyItsOwnSessions) {
  for (int i = 0; i < 3; ++i) open();
  uint32_t conn = UINT32_MAX;
  ASSERT_EQ(lifecycle.open(kOther, {}, kSecondPeer, 0, conn), channel::EndStatus::kOk);
  size_t sent = 0;
  for (int polls = 0; polls < 100 && transmission.has_work(); ++polls) {
    sent += transmission.transmit();
  }
  EXPECT_EQ(sent, 1u) << "without waiting for the deadline";
  EXPECT_FALSE(transmission.has_work());
  EXPECT_NE(transmission.next_deadline(), kNever);
}

TEST_F(FullPort, SessionsWhosePortTakesNothingAreTriedAgainByDeadline) {
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
