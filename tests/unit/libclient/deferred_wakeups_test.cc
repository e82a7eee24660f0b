#include <gtest/gtest.h>

#include <cstdint>

#include "libclient/include/lyre/lyre.h"
#include "tests/unit/libclient/fake_daemon.h"

namespace lyre::client {
namespace {

class DeferredWakeups : public ::testing::Test {
 protected:
  DeferredWakeups() {
    lyre_defer_wakeups(context_);
    daemon_.fall_asleep();
  }
  ~DeferredWakeups() override { lyre_context_close(context_); }

  FakeDaemon daemon_{{.arena_bytes = 4u << 20}};
  lyre_context* context_ = daemon_.attach();
  lyre_session* session_ = open_session(daemon_, context_, {1, 1});
};

TEST_F(DeferredWakeups, ASeriesWakesAWorkerOnce) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(1, lyre_send(session_, "x", 1));
  EXPECT_EQ(0, lyre_poll(context_, 0));
  EXPECT_EQ(0u, daemon_.rings_heard());
  lyre_wake_workers(context_);
  EXPECT_EQ(1u, daemon_.rings_heard());
  lyre_wake_workers(context_);
  EXPECT_EQ(0u, daemon_.rings_heard()) << "nothing was submitted since";
  lyre_defer_wakeups(nullptr);
  lyre_wake_workers(nullptr);
}

TEST_F(DeferredWakeups, CallsThatWaitWakeWorkers) {
  lyre_send(session_, "x", 1);
  EXPECT_EQ(0, lyre_poll(context_, 1));
  EXPECT_EQ(1u, daemon_.rings_heard());
  lyre_send(session_, "x", 1);
  EXPECT_EQ(LYRE_E_AGAIN, lyre_drain(context_, 1));
  EXPECT_EQ(1u, daemon_.rings_heard());
  lyre_send(session_, "x", 1);
  EXPECT_EQ(0, lyre_arm(context_));
  EXPECT_EQ(1u, daemon_.rings_heard());
}

// The answer to the sends that are under way is what the refused one waits for.
TEST_F(DeferredWakeups, ASendThatIsRefusedWakesTheWorker) {
  for (uint64_t i = 0; i < channel::kSendsOutstandingMax; ++i) {
    ASSERT_EQ(1, lyre_send(session_, "x", 1));
    daemon_.take();
  }
  EXPECT_EQ(0u, daemon_.rings_heard());
  EXPECT_EQ(LYRE_E_AGAIN, lyre_send(session_, "x", 1));
  EXPECT_EQ(1u, daemon_.rings_heard());
}

TEST_F(DeferredWakeups, ABlockThatIsRefusedWakesTheWorker) {
  lyre_block block;
  while (lyre_block_alloc(context_, 1 << 16, &block) == 0) {
    ASSERT_EQ(0, lyre_send_block(session_, &block, 1, 0));
  }
  EXPECT_EQ(1u, daemon_.rings_heard());
}

TEST_F(DeferredWakeups, AConnectThatIsRefusedWakesTheWorker) {
  lyre_addr peer{};
  ASSERT_EQ(0, lyre_addr_parse("10.0.0.2:9", &peer));
  int code = 0;
  for (lyre_session* session = nullptr; code == 0;) {
    code = lyre_connect(context_, nullptr, &peer, &session);
  }
  EXPECT_EQ(LYRE_E_AGAIN, code);
  EXPECT_EQ(1u, daemon_.rings_heard());
}

}  // namespace
}  // namespace lyre::client
