#include "stack/worker/received_payload.h"

#include <gtest/gtest.h>

#include "tests/unit/stack/worker/connected_parts.h"

namespace lyre::worker {
namespace {

constexpr uint32_t kLarge = 600;  ///< not small: it keeps a slot of its own

class ReceivedPayloadTest : public ConnectedParts {
 protected:
  uint32_t held() const { return state.accounts.held_by(kContext); }
  uint32_t charged() const { return state.engine.charged_bytes(conn); }

  const uint32_t free_before = memory.rx_slots_free();
};

TEST_F(ReceivedPayloadTest, IsTakenPacketByPacketInOrder) {
  receive_text(0, kLarge);
  receive_text(kLarge, kLarge + 1);
  const auto first = payload.take_slice(conn);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->length, kLarge);
  const auto second = payload.take_slice(conn);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->length, kLarge + 1);
  EXPECT_FALSE(payload.take_slice(conn).has_value());
  EXPECT_EQ(held(), 2u) << "until the slots are released";
  payload.release_kept_slot(conn, first->handle.slot);
  payload.release_kept_slot(conn, second->handle.slot);
  EXPECT_EQ(held(), 0u);
  EXPECT_EQ(memory.rx_slots_free(), free_before);
  EXPECT_GT(charged(), 0u) << "the window opens when the reader gives the bytes back";
}

TEST_F(ReceivedPayloadTest, OfMergedSegmentsIsTakenPacketByPacketToo) {
  for (const uint32_t offset : {0u, kLarge, 2 * kLarge}) {
    input.on_packet(packet_of(ip::tcp_frame(segment(conn, offset, kLarge))), ip::Origin::kWire,
                    Redirect::kNo);
  }
  segment_input.deliver_merged();
  EXPECT_EQ(held(), 3u);
  for (int i = 0; i < 3; ++i) {
    const auto slice = payload.take_slice(conn);
    ASSERT_TRUE(slice.has_value());
    EXPECT_EQ(slice->length, kLarge);
    payload.release_kept_slot(conn, slice->handle.slot);
  }
  EXPECT_FALSE(payload.take_slice(conn).has_value());
  EXPECT_EQ(memory.rx_slots_free(), free_before);
}

TEST_F(ReceivedPayloadTest, WhatIsDiscardedGivesItsSlotsAndItsChargeBack) {
  receive_text(0, kLarge);
  receive_text(kLarge, kLarge);
  payload.discard(conn);
  EXPECT_EQ(held(), 0u);
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(memory.rx_slots_free(), free_before);
  EXPECT_FALSE(state.session(conn).has_readable);
}

TEST_F(ReceivedPayloadTest, PruningTakesOnlyWhatCameOutOfOrder) {
  receive_text(0, kLarge);
  receive_text(3 * kLarge, kLarge);
  EXPECT_EQ(held(), 2u);
  payload.prune(conn);
  EXPECT_EQ(held(), 1u);
  EXPECT_EQ(memory.rx_slots_free(), free_before - 1);
  EXPECT_TRUE(payload.take_slice(conn).has_value());
}

// Statistics said that nothing was dropped.
TEST_F(ReceivedPayloadTest, WhatIsPrunedCountsAsDropped) {
  receive_text(3 * kLarge, kLarge);
  receive_text(5 * kLarge, kLarge);
  payload.prune(conn);
  EXPECT_EQ(drops(Drop::kRxPoolLow), 2u);
}

TEST_F(ReceivedPayloadTest, WhatAClientLeavesIsNotDroppedForWantOfRoom) {
  receive_text(3 * kLarge, kLarge);
  lifecycle.forget_context(conn);
  EXPECT_EQ(memory.rx_slots_free(), free_before);
  EXPECT_EQ(drops(Drop::kRxPoolLow), 0u);
}

TEST_F(ReceivedPayloadTest, SmallOnesJoinTheUnreadOneBeforeThem) {
  receive_text(0, 10);
  receive_text(10, 20);
  EXPECT_EQ(held(), 1u);
  EXPECT_EQ(stats.copied_rx_bytes.get(), 20u);
  const auto slice = payload.take_slice(conn);
  ASSERT_TRUE(slice.has_value());
  EXPECT_EQ(slice->length, 30u);
  const uint8_t* bytes = memory.rx_packet(slice->handle.slot)->data + slice->offset;
  EXPECT_EQ(bytes[9], 9u);
  EXPECT_EQ(bytes[10], 0u) << "the text of each segment counts from 0";
  EXPECT_EQ(bytes[29], 19u);
}

TEST_F(ReceivedPayloadTest, OfAConnectionThatIsOverNothingIsKept) {
  receive_text(0, kLarge);
  receive_text(3 * kLarge, kLarge);
  payload.release_all(conn);
  EXPECT_EQ(held(), 0u);
  EXPECT_EQ(memory.rx_slots_free(), free_before);
}

}  // namespace
}  // namespace lyre::worker
