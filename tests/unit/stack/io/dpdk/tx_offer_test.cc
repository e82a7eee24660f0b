#include "stack/io/dpdk/tx_offer.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <deque>
#include <initializer_list>
#include <vector>

#include "stack/io/dpdk/sent_marks.h"

namespace lyre::io::dpdk {
namespace {

class TxOfferTest : public ::testing::Test {
 protected:
  /// Packets of so many segments, of which the first one stands for all.
  std::vector<rte_mbuf*> packets(std::initializer_list<uint16_t> segments) {
    std::vector<rte_mbuf*> out;
    for (const uint16_t count : segments) {
      rte_mbuf& packet = made_.emplace_back();
      packet.nb_segs = count;
      rte_mbuf_refcnt_set(&packet, 1);
      out.push_back(&packet);
    }
    return out;
  }
  size_t fitting(std::initializer_list<uint16_t> segments) {
    return offer_.fitting(packets(segments), marks_);
  }

  TxOffer offer_;
  std::deque<rte_mbuf> made_;
  SentMarks marks_;  // ends before the packets that it holds
};

TEST_F(TxOfferTest, ADriverThatDropsNothingIsNotLimited) {
  EXPECT_FALSE(offer_.is_limited());
  offer_.set_ring(512);
  EXPECT_TRUE(offer_.is_limited());
  offer_.set_ring(0);
  EXPECT_FALSE(offer_.is_limited());
}

TEST_F(TxOfferTest, AnEmptyRingTakesAllButOneOfItsDescriptors) {
  offer_.set_ring(64);
  EXPECT_EQ(fitting({31, 32}), 2u);
  EXPECT_EQ(fitting({32, 32}), 1u);
}

// The driver's ring is smaller than the one that it was asked for.
TEST_F(TxOfferTest, ARingIsAMultipleOf32) {
  offer_.set_ring(95);
  EXPECT_EQ(fitting({31, 32}), 2u);
  EXPECT_EQ(fitting({32, 32}), 1u);
}

TEST_F(TxOfferTest, SmallPacketsDoNotGoBeforeALargeOne) {
  offer_.set_ring(64);
  EXPECT_EQ(fitting({24, 24, 24, 1}), 2u);
  EXPECT_EQ(fitting({64, 1}), 0u);
}

TEST_F(TxOfferTest, DescriptorsOfSentPacketsAreInUse) {
  offer_.set_ring(64);
  const std::vector<rte_mbuf*> first = packets({20, 20});
  rte_mbuf* held = SentMarks::hold(first.back());
  ASSERT_EQ(offer_.fitting(first, marks_), 2u);
  marks_.add(held, 2, offer_.note_sent());
  EXPECT_EQ(fitting({23}), 1u);
  EXPECT_EQ(fitting({24}), 0u);
  marks_.forget();
  EXPECT_EQ(fitting({63}), 1u) << "the device was closed";
  const std::vector<rte_mbuf*> next = packets({20});
  held = SentMarks::hold(next.back());
  ASSERT_EQ(offer_.fitting(next, marks_), 1u);
  marks_.add(held, 3, offer_.note_sent());
  EXPECT_EQ(fitting({43}), 1u) << "those from before are not in use";
  EXPECT_EQ(fitting({44}), 0u);
}

// A driver whose queue is stopped.
TEST_F(TxOfferTest, WhatTheDriverDidNotTakeIsNotCounted) {
  offer_.set_ring(64);
  const std::vector<rte_mbuf*> first = packets({20});
  rte_mbuf* held = SentMarks::hold(first.back());
  ASSERT_EQ(offer_.fitting(first, marks_), 1u);
  marks_.add(held, 1, offer_.note_sent());
  EXPECT_EQ(fitting({43}), 1u);
  EXPECT_EQ(fitting({43}), 1u);
}

}  // namespace
}  // namespace lyre::io::dpdk
