#include "stack/io/dpdk/sent_marks.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <array>
#include <cstdio>
#include <memory>
#include <optional>

namespace lyre::io::dpdk {
namespace {

/// A pool that only counts what comes back to it.
uint32_t given_back = 0;
int take_back(rte_mempool*, void* const*, unsigned int count) {
  given_back += count;
  return 0;
}
rte_mempool_ops counting_ops() {
  rte_mempool_ops ops{};
  std::snprintf(ops.name, sizeof ops.name, "lyre_counting");
  ops.alloc = [](rte_mempool*) { return 0; };
  ops.enqueue = take_back;
  ops.dequeue = [](rte_mempool*, void**, unsigned int) { return -1; };
  ops.get_count = [](const rte_mempool*) { return 0u; };
  return ops;
}

/// The driver is played by the test, which drops its reference to what it frees.
class SentMarksTest : public ::testing::Test {
 protected:
  SentMarksTest() {
    static const rte_mempool_ops ops = counting_ops();
    static const int ops_index = rte_mempool_register_ops(&ops);
    pool->ops_index = ops_index;
    given_back = 0;
    for (rte_mbuf& packet : packets) {
      packet.pool = pool.get();
      packet.nb_segs = 1;
      rte_mbuf_refcnt_set(&packet, 1);
    }
    marks.emplace();
  }
  void send(size_t index, uint64_t count) { marks->add(SentMarks::hold(&packets[index]), count); }
  void driver_frees(size_t index) { rte_pktmbuf_free_seg(&packets[index]); }
  uint16_t references(size_t index) { return rte_mbuf_refcnt_read(&packets[index]); }

  std::unique_ptr<rte_mempool> pool = std::make_unique<rte_mempool>();
  std::array<rte_mbuf, SentMarks::kMarksMax + 1> packets{};
  std::optional<SentMarks> marks;
};

// Of a burst of which a part did not fit the ring, no packet has a count.
TEST_F(SentMarksTest, TellsTheDescriptorsOfFreedPackets) {
  marks->add(SentMarks::hold(&packets[0]), 10, 24);
  marks->add(SentMarks::hold(&packets[1]), 0, 40);
  EXPECT_EQ(marks->freed(), 0u);
  EXPECT_EQ(marks->freed_descriptors(), 0u);
  driver_frees(0);
  EXPECT_EQ(marks->freed(), 10u);
  EXPECT_EQ(marks->freed_descriptors(), 24u);
  driver_frees(1);
  EXPECT_EQ(marks->freed(), 10u);
  EXPECT_EQ(marks->freed_descriptors(), 40u);
  EXPECT_TRUE(marks->empty());
}

TEST_F(SentMarksTest, TellsWhatTheDriverFreedInOrder) {
  send(0, 10);
  send(1, 20);
  send(2, 30);
  driver_frees(0);
  driver_frees(1);
  EXPECT_EQ(given_back, 0u) << "the marks hold them";
  EXPECT_EQ(marks->freed(), 20u);
  EXPECT_EQ(given_back, 2u);
  EXPECT_FALSE(marks->empty());
  driver_frees(2);
  EXPECT_EQ(marks->freed(), 30u);
  EXPECT_TRUE(marks->empty());
  EXPECT_EQ(given_back, 3u);
}

TEST_F(SentMarksTest, ASegmentThatFollowsIsNotFreedAgain) {
  packets[0].next = &packets[3];
  packets[0].nb_segs = 2;
  send(0, 10);
  rte_pktmbuf_free(&packets[0]);  // the driver frees the chain
  EXPECT_EQ(given_back, 1u);
  EXPECT_EQ(marks->freed(), 10u);
  EXPECT_EQ(given_back, 2u);
  EXPECT_EQ(packets[0].next, nullptr);
}

// mlx5 copies the headers, and frees their segment when it takes the packet.
TEST_F(SentMarksTest, APacketIsFreedWithItsLastSegment) {
  packets[0].next = &packets[3];
  packets[0].nb_segs = 2;
  send(0, 10);
  driver_frees(0);
  EXPECT_EQ(given_back, 1u);
  EXPECT_EQ(marks->freed(), 0u);
  driver_frees(3);
  EXPECT_EQ(marks->freed(), 10u);
  EXPECT_EQ(given_back, 2u);
}

TEST_F(SentMarksTest, NothingIsFreedWhileTheDriverHoldsIt) {
  send(0, 10);
  send(1, 20);
  EXPECT_EQ(marks->freed(), 0u);
  EXPECT_FALSE(marks->empty());
  EXPECT_EQ(references(0), 2);
  marks.reset();
  EXPECT_EQ(references(0), 1) << "the driver still has it";
  EXPECT_EQ(given_back, 0u);
}

TEST_F(SentMarksTest, WhatWasNotSentIsNotMarked) {
  SentMarks::release(SentMarks::hold(&packets[0]));
  EXPECT_EQ(references(0), 1);
  EXPECT_TRUE(marks->empty());
}

// ENA frees them as completions come.
TEST_F(SentMarksTest, OfABurstWhoseLastPacketIsFreedFirstNothingIsFreed) {
  send(0, 10);
  send(1, 0);
  send(2, 30);
  driver_frees(0);
  driver_frees(2);
  EXPECT_EQ(marks->freed(), 10u);
  driver_frees(1);
  EXPECT_EQ(marks->freed(), 30u);
  EXPECT_TRUE(marks->empty());
}

// gve frees a packet that the device repeats after thousands of later ones.
TEST_F(SentMarksTest, MarksOfFreedPacketsLeaveWhenThereIsNoRoom) {
  constexpr size_t kLast = SentMarks::kMarksMax;
  for (size_t i = 0; i < kLast; ++i) send(i, i + 1);
  for (size_t i = 1; i < kLast; ++i) driver_frees(i);
  EXPECT_EQ(given_back, 0u);
  send(kLast, 9'999);
  EXPECT_EQ(given_back, kLast - 1);
  EXPECT_EQ(marks->freed(), 0u) << "the first one is not";
  driver_frees(0);
  EXPECT_EQ(marks->freed(), kLast);
  driver_frees(kLast);
  EXPECT_EQ(marks->freed(), 9'999u);
  EXPECT_TRUE(marks->empty());
}

TEST_F(SentMarksTest, AMarkWithoutRoomReplacesTheLatest) {
  for (size_t i = 0; i < SentMarks::kMarksMax; ++i) send(i == 0 ? 0 : 1, i);
  send(2, 9'999);
  EXPECT_EQ(references(2), 2);
  EXPECT_EQ(references(1), SentMarks::kMarksMax - 1) << "one of its marks was given up";
  EXPECT_EQ(marks->freed(), 0u);
}

}  // namespace
}  // namespace lyre::io::dpdk
