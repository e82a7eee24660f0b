#include "nccl_adapter/daemon_link/progress_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <utility>

namespace lyre::nccl_adapter {
namespace {

TEST(ProgressThreadTest, CallsAgainAndAgain) {
  std::atomic<int> calls = 0;
  std::promise<void> third;
  const ProgressThread thread([&] {
    if (++calls == 3) third.set_value();
  });
  third.get_future().wait();
}

TEST(ProgressThreadTest, TheDestructorWaitsForACallUnderWay) {
  std::promise<void> begun;
  std::promise<void> may_end;
  std::atomic<bool> has_ended = false;
  auto thread = std::make_unique<ProgressThread>([&, first = true]() mutable {
    if (!std::exchange(first, false)) return;
    begun.set_value();
    may_end.get_future().wait();
    has_ended = true;
  });
  begun.get_future().wait();
  std::thread releaser([&] { may_end.set_value(); });
  thread.reset();
  EXPECT_TRUE(has_ended);
  releaser.join();
}

// The application's handlers expect the application's threads.
TEST(ProgressThreadTest, AllSignalsAreBlockedOnItAndNoneOnItsMaker) {
  sigset_t maker_before;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &maker_before);
  std::promise<bool> is_blocked;
  {
    const ProgressThread thread([&, first = true]() mutable {
      if (!std::exchange(first, false)) return;
      sigset_t mask;
      ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
      is_blocked.set_value(::sigismember(&mask, SIGTERM) == 1 &&
                           ::sigismember(&mask, SIGUSR1) == 1);
    });
    EXPECT_TRUE(is_blocked.get_future().get());
  }
  sigset_t maker_after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &maker_after);
  EXPECT_EQ(::sigismember(&maker_after, SIGTERM), ::sigismember(&maker_before, SIGTERM));
}

}  // namespace
}  // namespace lyre::nccl_adapter
