#include "tools/nccl_emulator/ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <tuple>
#include <vector>

namespace lyre::nccl_emulator {
namespace {

struct Case {
  int ranks;
  int channels;
  int slice_steps;
  Protocol protocol;
  uint64_t elements;
  Collective collective = Collective::kAllReduce;
};

/// All ranks of a ring in one process; a message is the values it carries.
class RingModel {
 public:
  explicit RingModel(const Case& c) : ranks_(static_cast<size_t>(c.ranks)) {
    for (int rank = 0; rank < c.ranks; ++rank) {
      Rank& r = ranks_[static_cast<size_t>(rank)];
      const RingShape shape{rank, c.ranks, c.channels, c.slice_steps};
      r.ring = make_ring(shape, c.protocol, c.elements, c.collective);
      r.next.resize(r.ring.size());
      r.inbox.resize(r.ring.size());
      for (uint64_t i = 0; i < c.elements; ++i) {
        r.data.push_back(static_cast<int64_t>(i * 7) + rank * 1000);
      }
    }
  }

  bool run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t rank = 0; rank < ranks_.size(); ++rank) {
        for (size_t channel = 0; channel < ranks_[rank].ring.size(); ++channel) {
          while (step(rank, channel)) moved = true;
        }
      }
    }
    return is_finished();
  }

  const std::vector<int64_t>& data(size_t rank) const { return ranks_[rank].data; }

 private:
  struct Rank {
    std::vector<std::vector<Slice>> ring;
    std::vector<size_t> next;
    std::vector<std::deque<std::vector<int64_t>>> inbox;
    std::vector<int64_t> data;
  };

  bool step(size_t rank, size_t channel) {
    Rank& r = ranks_[rank];
    if (r.next[channel] == r.ring[channel].size()) return false;
    const Slice& slice = r.ring[channel][r.next[channel]];
    std::vector<int64_t> message(slice.count, 0);
    if (receives(slice.op)) {
      if (r.inbox[channel].empty()) return false;
      message = r.inbox[channel].front();
      r.inbox[channel].pop_front();
      EXPECT_EQ(message.size(), slice.count) << "neighbours disagree about a message's length";
    }
    const bool reduces = slice.op == RingOp::kSend || slice.op == RingOp::kRecvReduceSend ||
                         slice.op == RingOp::kRecvReduceCopySend;
    const bool copies = slice.op != RingOp::kSend && slice.op != RingOp::kRecvReduceSend;
    for (uint32_t i = 0; i < slice.count; ++i) {
      if (reduces) message[i] += r.data[slice.offset + i];
      if (copies) r.data[slice.offset + i] = message[i];
    }
    if (sends(slice.op)) ranks_[(rank + 1) % ranks_.size()].inbox[channel].push_back(message);
    ++r.next[channel];
    return true;
  }

  bool is_finished() const {
    for (const Rank& r : ranks_) {
      for (size_t c = 0; c < r.ring.size(); ++c) {
        if (r.next[c] != r.ring[c].size() || !r.inbox[c].empty()) return false;
      }
    }
    return true;
  }

  std::vector<Rank> ranks_;
};

void expect_sum_everywhere(const Case& c) {
  RingModel model(c);
  ASSERT_TRUE(model.run()) << "the ring is stuck";
  const int64_t rank_sum = int64_t{1000} * c.ranks * (c.ranks - 1) / 2;
  for (size_t rank = 0; rank < static_cast<size_t>(c.ranks); ++rank) {
    const std::vector<int64_t>& data = model.data(rank);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < c.elements; ++i) {
      wrong += data[i] != static_cast<int64_t>(i * 7) * c.ranks + rank_sum ? 1 : 0;
    }
    ASSERT_EQ(wrong, 0U) << "rank " << rank;
  }
}

void expect_left_neighbour_everywhere(Case c) {
  c.collective = Collective::kSendRecv;
  RingModel model(c);
  ASSERT_TRUE(model.run()) << "the ring is stuck";
  for (int rank = 0; rank < c.ranks; ++rank) {
    const int left = (rank + c.ranks - 1) % c.ranks;
    const std::vector<int64_t>& data = model.data(static_cast<size_t>(rank));
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < c.elements; ++i) {
      wrong += data[i] != static_cast<int64_t>(i * 7) + left * 1000 ? 1 : 0;
    }
    ASSERT_EQ(wrong, 0U) << "rank " << rank;
  }
}

class RingTest : public testing::TestWithParam<std::tuple<int, int, uint64_t>> {
 protected:
  Case make(Protocol protocol, int slice_steps) const {
    return {std::get<0>(GetParam()), std::get<1>(GetParam()), slice_steps, protocol,
            std::get<2>(GetParam())};
  }
};

TEST_P(RingTest, SimpleSumsEverywhere) { expect_sum_everywhere(make(Protocol::kSimple, 2)); }
TEST_P(RingTest, SimpleOneStepSumsEverywhere) { expect_sum_everywhere(make(Protocol::kSimple, 1)); }
TEST_P(RingTest, LlSumsEverywhere) { expect_sum_everywhere(make(Protocol::kLl, 2)); }
TEST_P(RingTest, SendRecvMovesEverything) {
  expect_left_neighbour_everywhere(make(Protocol::kSimple, 2));
  expect_left_neighbour_everywhere(make(Protocol::kLl, 2));
}

INSTANTIATE_TEST_SUITE_P(Shapes, RingTest,
                         testing::Combine(testing::Values(2, 3, 4, 8), testing::Values(1, 2, 3),
                                          testing::Values(1, 5, 4096, 100'003)));

TEST(Ring, ManyLoopsSumEverywhere) {
  expect_sum_everywhere({2, 1, 2, Protocol::kSimple, 2'500'001});
  expect_sum_everywhere({3, 1, 1, Protocol::kSimple, 1'700'000});
}

TEST(Ring, ManySlicesOfASendRecvMoveEverything) {
  expect_left_neighbour_everywhere({2, 1, 2, Protocol::kSimple, 2'500'001});
  expect_left_neighbour_everywhere({3, 2, 1, Protocol::kSimple, 1'700'000});
}

TEST(Ring, MessagesFitTheirSlots) {
  for (const Protocol protocol : {Protocol::kLl, Protocol::kSimple}) {
    for (const int slice_steps : {1, 2}) {
      for (const Collective collective : {Collective::kAllReduce, Collective::kSendRecv}) {
        const SlotPlan plan = slot_plan(protocol, slice_steps, collective);
        const auto ring = make_ring({0, 4, 2, slice_steps}, protocol, 10'000'000, collective);
        for (const Slice& slice : ring[0]) {
          ASSERT_LE(wire_bytes(protocol, slice.count), plan.slice_bytes);
        }
      }
    }
  }
}

TEST(Ring, LargeSimpleSlicesAreOneMiBAndFourFly) {
  EXPECT_EQ(slot_plan(Protocol::kSimple, 2).depth, 4);
  EXPECT_EQ(slot_plan(Protocol::kSimple, 1).depth, 8);
  EXPECT_EQ(slot_plan(Protocol::kLl, 2).depth, 8);
  const auto ring = make_ring({0, 2, 1, 2}, Protocol::kSimple, 50'000'000);
  EXPECT_EQ(wire_bytes(Protocol::kSimple, ring[0].front().count), size_t{1} << 20);
}

TEST(Ring, ASendRecvHasTheMessagesOfNcclsPointToPoint) {
  const SlotPlan plan = slot_plan(Protocol::kSimple, 2, Collective::kSendRecv);
  EXPECT_EQ(plan.slice_bytes, size_t{128} << 10);
  EXPECT_EQ(plan.depth, 8);
  const auto first_bytes = [](uint64_t bytes) {
    const auto ring =
        make_ring({0, 2, 1, 2}, Protocol::kSimple, bytes / sizeof(float), Collective::kSendRecv);
    return wire_bytes(Protocol::kSimple, ring[0].front().count);
  };
  EXPECT_EQ(first_bytes(64 << 10), size_t{32} << 10);
  EXPECT_EQ(first_bytes(512 << 10), size_t{64} << 10);
  EXPECT_EQ(first_bytes(8 << 20), size_t{128} << 10);
}

TEST(Ring, SmallChunksEndInEmptyMessages) {
  const auto ring = make_ring({0, 2, 1, 2}, Protocol::kSimple, 8);
  ASSERT_EQ(ring[0].size(), 6U);
  EXPECT_EQ(ring[0][0].count, 4U);
  EXPECT_EQ(ring[0][1].count, 0U);
  EXPECT_EQ(wire_bytes(Protocol::kSimple, 0), 0U);
}

TEST(Ring, LlLinesCarryTwoFlagsEach) {
  EXPECT_EQ(wire_bytes(Protocol::kLl, 2), 16U);
  EXPECT_EQ(wire_bytes(Protocol::kLl, 3), 32U);
}

}  // namespace
}  // namespace lyre::nccl_emulator
