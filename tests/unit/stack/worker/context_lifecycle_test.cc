#include "stack/worker/context_lifecycle.h"

#include <gtest/gtest.h>

#include "tests/unit/stack/worker/worker_parts.h"

namespace lyre::worker {
namespace {

class ContextLifecycleTest : public WorkerParts {
 protected:
  void detach(bool resets = false) {
    contexts.detach(
        {.kind = Command::Kind::kDetach, .context = kContext, .resets_sessions = resets});
  }
  /// Turns until the context is given up. False: it is not after so many.
  bool give_up(int turns_max = 20) {
    for (int i = 0; i < turns_max && contexts.are_detaching(); ++i) {
      state.now += kHoldRetryLongest;
      holds.advance();
      regions.finish_removals();
      contexts.continue_detaching();
      holds.end_turn();
    }
    return !contexts.are_detaching();
  }
};

TEST_F(ContextLifecycleTest, AnAttachedContextHasItsArena) {
  attach();
  EXPECT_EQ(state.contexts.in_use().size(), 1u);
  EXPECT_TRUE(state.contexts[kContext].has_region);
  EXPECT_FALSE(state.client_memory.is_free(kContext));
  EXPECT_FALSE(contexts.has_work());
}

// A connection moves only to a worker that knows its client.
TEST_F(ContextLifecycleTest, AnAttachIsCountedForTheOtherWorkers) {
  attach();
  EXPECT_EQ(attached_workers.load(), 1u);
  EXPECT_TRUE(state.contexts[kContext].is_known_to_all(1));
  EXPECT_FALSE(state.contexts[kContext].is_known_to_all(2));
}

TEST_F(ContextLifecycleTest, IsAnsweredOnceWhenNothingIsLeft) {
  attach();
  detach();
  detach();
  EXPECT_TRUE(contexts.has_work());
  ASSERT_TRUE(give_up());
  const auto reply = next_reply();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->kind, Reply::Kind::kDetached);
  EXPECT_EQ(reply->context, kContext);
  EXPECT_FALSE(next_reply().has_value());
  EXPECT_TRUE(state.contexts.in_use().empty());
  EXPECT_TRUE(state.client_memory.is_free(kContext));
}

TEST_F(ContextLifecycleTest, ADetachOfAFreeContextIsIgnored) {
  detach();
  EXPECT_FALSE(contexts.are_detaching());
  EXPECT_FALSE(next_reply().has_value());
}

TEST_F(ContextLifecycleTest, SessionsEndWithTheirContext) {
  attach();
  const uint32_t conn = open();
  detach(true);
  EXPECT_TRUE(give_up());
  EXPECT_FALSE(state.engine.is_open(conn));
}

TEST_F(ContextLifecycleTest, RegisteredMemoryGoesWithItsContext) {
  attach();
  constexpr uint32_t kName = (1u << channel::kRegionIndexBits) + kContextsMax + 1;
  std::vector<uint8_t> bytes(4096);
  regions.add({.kind = Command::Kind::kAddRegion,
               .context = kContext,
               .region = kName,
               .memory = bytes.data(),
               .memory_bytes = bytes.size()});
  ASSERT_EQ(next_reply()->kind, Reply::Kind::kRegionAdded);
  detach();
  ASSERT_TRUE(give_up());
  EXPECT_TRUE(state.client_memory.is_free(kContextsMax + 1));
  EXPECT_EQ(next_reply()->kind, Reply::Kind::kDetached);
}

// It may have been expelled while it stood still. A slot that went back may be written to at once.
TEST_F(ContextLifecycleTest, TheClientCanSeeThatItsSlotsWereTakenBack) {
  attach();
  const channel::ContextHeader& header = state.contexts[kContext].header();
  const io::PacketBuf* packet = memory.alloc_rx();
  ASSERT_NE(packet, nullptr);
  state.loans.lend(packet->slot, {.context = kContext});
  state.accounts.add(kContext, 1);
  struct Watcher {
    const channel::ContextHeader& header;
    uint32_t released = 0;
  } watcher{header};
  memory.watcher = &watcher;
  memory.on_release = [](void* to) {
    Watcher& told = *static_cast<Watcher*>(to);
    ++told.released;
    EXPECT_EQ(told.header.revoked.load(), 1u);
  };
  detach();
  EXPECT_EQ(header.revoked.load(), 0u);
  ASSERT_TRUE(give_up());
  memory.on_release = nullptr;
  EXPECT_EQ(watcher.released, 1u);
  EXPECT_EQ(header.revoked.load(), 1u);
}

TEST_F(ContextLifecycleTest, APortThatHoldsItsMemoryKeepsTheContext) {
  attach();
  memory.hold(kContext);
  detach();
  EXPECT_FALSE(give_up());
  EXPECT_FALSE(next_reply().has_value());
  memory.let_go(kContext);
  EXPECT_TRUE(give_up());
  EXPECT_TRUE(next_reply().has_value());
}

}  // namespace
}  // namespace lyre::worker
