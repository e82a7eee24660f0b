#include "stack/tcp/receive_queue.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "stack/tcp/receive_state.h"

namespace lyre::tcp {
namespace {

/// The queue of a connection whose RCV.NXT is 1000, without the connection.
class ReceiveQueueTest : public ::testing::Test {
 protected:
  struct Text {
    uint32_t start;
    uint32_t bytes;
  };

  /// Payloads of slots 1, 2, ..., each charged 2048 bytes. REQUIRES: sorted and disjoint.
  void keep(std::initializer_list<Text> texts) {
    for (const Text& text : texts) {
      const uint32_t index = runs.take();
      ReceivedRun& run = runs[index];
      run.start = SeqNum(text.start);
      run.length = text.bytes;
      run.charge_bytes = 2048;
      run.handle = {.slot = runs.used()};
      run.prev = rcv.run_tail;
      (rcv.run_tail == kNoNode ? rcv.run_head : runs[rcv.run_tail].next) = index;
      rcv.run_tail = index;
      if (run.start.after(rcv.nxt)) {
        const uint32_t left = rcv.gap_head == kNoNode ? kNoNode : run.prev;
        RunIndex(runs, rcv.gap_root, kSeed).insert_after(left, index);
        if (left == kNoNode) rcv.gap_head = index;
      }
      rcv.charged_bytes += run.charge_bytes;
    }
    queue.check_invariants(rcv.nxt);
  }

  static constexpr uint64_t kSeed = 5;
  Slab<ReceivedRun> runs{8};
  ReceiveState rcv = [] {
    ReceiveState state;
    state.nxt = SeqNum(1000);
    return state;
  }();
  ReceiveQueue queue{runs, rcv, kSeed};
};

TEST_F(ReceiveQueueTest, AnEmptyOneGivesNothing) {
  EXPECT_FALSE(queue.take_readable());
  EXPECT_FALSE(queue.take_superseded());
  EXPECT_FALSE(queue.take_out_of_order());
  EXPECT_FALSE(queue.unread_tail());
  EXPECT_FALSE(queue.take_any());
}

TEST_F(ReceiveQueueTest, ReadingStopsAtTheGapAndKeepsTheCharge) {
  keep({{800, 100}, {900, 100}, {1100, 50}});
  EXPECT_EQ(queue.take_readable()->handle.slot, 1u);
  EXPECT_EQ(queue.take_readable()->handle.slot, 2u);
  EXPECT_FALSE(queue.take_readable());
  queue.check_invariants(rcv.nxt);
  EXPECT_EQ(rcv.charged_bytes, 3u * 2048);
  EXPECT_EQ(runs.used(), 1u);
}

TEST_F(ReceiveQueueTest, WhatCameOutOfOrderGoesFromTheEndWithItsChargeAndSackBlocks) {
  keep({{900, 100}, {1100, 50}, {1200, 50}});
  rcv.sack_count = 2;
  EXPECT_EQ(queue.take_out_of_order()->slot, 3u);
  EXPECT_EQ(queue.take_out_of_order()->slot, 2u);
  EXPECT_FALSE(queue.take_out_of_order());
  queue.check_invariants(rcv.nxt);
  EXPECT_EQ(rcv.charged_bytes, 2048u);
  EXPECT_EQ(rcv.sack_count, 0);
  EXPECT_EQ(queue.take_readable()->handle.slot, 1u);
}

TEST_F(ReceiveQueueTest, TheTailIsTheLastInOrder) {
  keep({{800, 100}, {900, 100}, {1100, 50}});
  EXPECT_EQ(queue.unread_tail()->handle.slot, 2u);
  while (queue.take_readable()) continue;
  EXPECT_FALSE(queue.unread_tail());
}

TEST_F(ReceiveQueueTest, NeighboursTouchOnlyWithoutAGap) {
  keep({{800, 100}, {900, 100}, {1100, 50}});
  const uint32_t first = rcv.run_head;
  const uint32_t second = runs[first].next;
  EXPECT_FALSE(queue.find_touching(first));
  EXPECT_FALSE(queue.find_touching(rcv.run_tail));
  const auto touching = queue.find_touching(second);
  ASSERT_TRUE(touching);
  EXPECT_EQ(touching->before.handle.slot, 1u);
  EXPECT_EQ(touching->run.handle.slot, 2u);
}

TEST_F(ReceiveQueueTest, JoinedPayloadsAreOneChargedAsTheFirst) {
  keep({{800, 100}, {900, 100}});
  rcv.charge_sum_bytes = rcv.charged_bytes;
  queue.join(rcv.run_tail);
  queue.check_invariants(rcv.nxt);
  EXPECT_EQ(rcv.charged_bytes, 2048u);
  EXPECT_EQ(rcv.charge_sum_bytes, 2048u);
  const auto both = queue.take_readable();
  EXPECT_EQ(both->handle.slot, 1u);
  EXPECT_EQ(both->length, 200u);
  EXPECT_EQ(runs.used(), 0u);
}

TEST_F(ReceiveQueueTest, TakeAnyEmptiesItWithEveryCharge) {
  keep({{900, 100}, {1100, 50}});
  const uint32_t superseded = runs.take();
  runs[superseded].handle = {.slot = 9};
  rcv.superseded_head = superseded;
  EXPECT_EQ(queue.take_any()->slot, 9u);
  EXPECT_EQ(queue.take_any()->slot, 1u);
  EXPECT_EQ(queue.take_any()->slot, 2u);
  EXPECT_FALSE(queue.take_any());
  queue.check_invariants(rcv.nxt);
  EXPECT_EQ(rcv.charged_bytes, 0u);
  EXPECT_EQ(runs.used(), 0u);
}

}  // namespace
}  // namespace lyre::tcp
