#include "stack/worker/region_lifecycle.h"

#include <gtest/gtest.h>

#include "tests/unit/stack/worker/worker_parts.h"

namespace lyre::worker {
namespace {

constexpr uint32_t kIndex = kContextsMax + 3;
constexpr uint32_t kName = (1u << channel::kRegionIndexBits) + kIndex;

class RegionLifecycleTest : public WorkerParts {
 protected:
  RegionLifecycleTest() : bytes_(4096) { attach(); }
  void add(uint32_t name = kName) {
    regions.add({.kind = Command::Kind::kAddRegion,
                 .context = kContext,
                 .region = name,
                 .memory = bytes_.data(),
                 .memory_bytes = bytes_.size()});
  }
  void remove(uint32_t name = kName) {
    regions.begin_removal(
        {.kind = Command::Kind::kRemoveRegion, .context = kContext, .region = name});
  }
  size_t finish() {
    state.now += kHoldRetryLongest;
    holds.advance();
    const size_t work = regions.finish_removals();
    holds.end_turn();
    return work;
  }
  Reply::Kind reply() {
    const auto next = next_reply();
    EXPECT_TRUE(next.has_value());
    return next ? next->kind : Reply::Kind::kShutDown;
  }
  std::vector<uint8_t> bytes_;
};

TEST_F(RegionLifecycleTest, AddedMemoryIsKnownToThePortsAndAnswered) {
  add();
  EXPECT_EQ(reply(), Reply::Kind::kRegionAdded);
  EXPECT_FALSE(state.client_memory.is_free(kIndex));
}

TEST_F(RegionLifecycleTest, AContextThatLeavesGetsNoMore) {
  contexts.detach({.kind = Command::Kind::kDetach, .context = kContext});
  add();
  EXPECT_EQ(reply(), Reply::Kind::kRegionRefused);
  EXPECT_TRUE(state.client_memory.is_free(kIndex));
}

TEST_F(RegionLifecycleTest, UnknownMemoryIsRemovedAlready) {
  remove();
  EXPECT_EQ(reply(), Reply::Kind::kRegionRemoved);
}

TEST_F(RegionLifecycleTest, MemoryThatNothingUsesGoesInTheNextTurn) {
  add();
  reply();
  remove();
  EXPECT_FALSE(next_reply().has_value());
  EXPECT_GT(finish(), 0u);
  EXPECT_EQ(reply(), Reply::Kind::kRegionRemoved);
  EXPECT_TRUE(state.client_memory.is_free(kIndex));
}

TEST_F(RegionLifecycleTest, WaitsForThePortThatHoldsIt) {
  add();
  reply();
  memory.hold(kIndex);
  remove();
  finish();
  EXPECT_FALSE(next_reply().has_value());
  EXPECT_TRUE(holds.is_waiting());
  memory.let_go(kIndex);
  finish();
  EXPECT_EQ(reply(), Reply::Kind::kRegionRemoved);
  holds.advance();
  EXPECT_FALSE(holds.is_waiting());
}

// A client is told after a second that a port holds its memory, and goes on to the next region.
TEST_F(RegionLifecycleTest, AllThatAPortHeldIsAnsweredThoughNoAnswerIsTakenMeanwhile) {
  for (uint32_t index = kContextsMax; index < kRegionsMax; ++index) {
    add(index);
    ASSERT_EQ(reply(), Reply::Kind::kRegionAdded);
    memory.hold(index);
    remove(index);
  }
  for (int turn = 0; turn < 1024; ++turn) finish();
  EXPECT_FALSE(next_reply().has_value());
  for (uint32_t index = kContextsMax; index < kRegionsMax; ++index) memory.let_go(index);
  for (int turn = 0; turn < 1024; ++turn) finish();
  for (uint32_t index = kContextsMax; index < kRegionsMax; ++index) {
    ASSERT_EQ(reply(), Reply::Kind::kRegionRemoved) << index;
  }
  EXPECT_FALSE(next_reply().has_value());
}

TEST_F(RegionLifecycleTest, SessionsThatWouldHaveToSendFromItEnd) {
  add();
  reply();
  const uint32_t sends = open();
  const uint32_t other = open();
  ASSERT_TRUE(state.sends.try_append(state.session(sends).sends,
                                     {.region = kIndex, .length = 100, .offset = 0}));
  remove();
  finish();
  EXPECT_EQ(state.engine.state(other), tcp::State::kSynSent);
  EXPECT_TRUE(!state.engine.is_open(sends) || state.engine.state(sends) == tcp::State::kClosed);
  finish();
  EXPECT_EQ(reply(), Reply::Kind::kRegionRemoved);
}

}  // namespace
}  // namespace lyre::worker
