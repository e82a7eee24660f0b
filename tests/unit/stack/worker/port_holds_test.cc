#include "stack/worker/port_holds.h"

#include <gtest/gtest.h>

#include "stack/base/check.h"
#include "tests/unit/stack/worker/worker_parts.h"

namespace lyre::worker {
namespace {

class PortHoldsTest : public WorkerParts {
 protected:
  explicit PortHoldsTest(const io::sim::LinkOptions& options = {}) : WorkerParts(options) {
    attach();
  }
  /// The port is given a packet with a piece of the arena, and has not sent it.
  void queue_piece() {
    io::PacketBuf* packet = output.alloc();
    LYRE_CHECK(packet != nullptr);
    packet->length = 60;
    packet->pieces[0] = {.region = kContext, .length = 100, .offset = 0};
    packet->piece_count = 1;
    state.ports[0].queue(packet);
  }
  /// The session has news that waits for all packets which the port was given.
  void hold_news(uint32_t conn) {
    state.session(conn).fence = state.ports[0].queued();
    state.session(conn).must_announce_progress = true;
    state.notifier.mark(conn);
    announcements.announce_all();
  }
  bool has_news(uint32_t conn) { return state.contexts[kContext].dirty.front() == conn; }
  void turn() {
    holds.end_turn();
    holds.advance();
  }
};

TEST_F(PortHoldsTest, WithoutAFenceNothingIsHeld) {
  queue_piece();
  session::Session idle;
  EXPECT_FALSE(holds.holds_memory_of(idle));
  EXPECT_FALSE(holds.is_waiting());
  EXPECT_EQ(holds.next_deadline(), kNever);
}

TEST_F(PortHoldsTest, APortHoldsMemoryUntilItHasFreedThePacketsUpToTheFence) {
  queue_piece();
  session::Session waiting;
  waiting.fence = state.ports[0].queued();
  EXPECT_TRUE(holds.holds_memory_of(waiting));
  EXPECT_TRUE(holds.is_waiting());
  EXPECT_GT(holds.next_deadline(), state.now);
  take_frames();
  turn();
  EXPECT_FALSE(holds.holds_memory_of(waiting));
  EXPECT_EQ(waiting.fence, 0u);
  EXPECT_FALSE(holds.is_waiting());
}

TEST_F(PortHoldsTest, ASessionWhoseWaitEndedHasNewsAgain) {
  const uint32_t conn = open();
  queue_piece();
  hold_news(conn);
  EXPECT_FALSE(has_news(conn));
  turn();
  EXPECT_FALSE(has_news(conn)) << "the packet is not sent yet";
  take_frames();
  turn();
  EXPECT_TRUE(has_news(conn));
}

TEST_F(PortHoldsTest, ARegionIsHeldWhileAPacketThatWaitsHasAPieceOfIt) {
  EXPECT_FALSE(holds.is_held(kContext));
  queue_piece();
  EXPECT_TRUE(holds.is_held(kContext));
  EXPECT_FALSE(holds.is_held(kContext + 1));
  take_frames();
  EXPECT_FALSE(holds.is_held(kContext));
  memory.hold(kContext);
  EXPECT_TRUE(holds.is_held(kContext)) << "the port has taken a piece";
  memory.let_go(kContext);
}

TEST_F(PortHoldsTest, ARegionIsWorthAnotherLookWhenThePortHasFreedPackets) {
  queue_piece();
  holds.hold_back(kContext);
  EXPECT_TRUE(state.client_memory.is_held_back(kContext));
  const uint32_t look = holds.look();
  turn();
  EXPECT_EQ(holds.look(), look);
  take_frames();
  turn();
  EXPECT_NE(holds.look(), look);
}

/// A port that frees nothing, whatever it is given.
class DeadPort : public PortHoldsTest {
 protected:
  DeadPort() : PortHoldsTest({.tx_release = io::sim::TxRelease::kOnReclaimWhileUp}) {
    link.set_up(false);
  }
};

TEST_F(DeadPort, IsGivenFewPacketsToMakeItFreeOthers) {
  const uint32_t conn = open();
  queue_piece();
  hold_news(conn);
  state.ports[0].flush();
  const uint64_t before = state.ports[0].queued();
  for (int i = 0; i < 100; ++i) {
    state.now += kHoldRetryLongest;
    turn();
  }
  EXPECT_EQ(state.ports[0].queued() - before, kNudgePacketsMax);
  EXPECT_FALSE(has_news(conn));
}

/// Drivers that free packets when they send others: 32 at a time (mlx5), or one for one (igb).
class LazyPort : public PortHoldsTest, public testing::WithParamInterface<io::sim::TxRelease> {
 protected:
  LazyPort()
      : PortHoldsTest({.tx_release = GetParam(), .tx_ring_packets = io::kFreedWithinPackets}) {}
};

INSTANTIATE_TEST_SUITE_P(Drivers, LazyPort,
                         testing::Values(io::sim::TxRelease::kBySending32,
                                         io::sim::TxRelease::kByReuse));

TEST_P(LazyPort, IsGivenPacketsUntilItFreesTheOneThatIsWaitedFor) {
  const uint32_t conn = open();
  queue_piece();
  hold_news(conn);
  state.ports[0].flush();
  for (int i = 0; i < 100 && holds.is_waiting(); ++i) {
    state.now += kHoldRetryLongest;
    turn();
  }
  EXPECT_TRUE(has_news(conn));
}

}  // namespace
}  // namespace lyre::worker
