#include "nccl_adapter/daemon_link/progress_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <system_error>
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

enum Outcome : int { kLeftAlone, kBlocked, kCouldStart };

/// In a process that may start no thread. kCouldStart: here it may all the same.
Outcome try_to_start_one() {
  if (::getuid() == 0 && ::setuid(65534) != 0) return kCouldStart;  // the limit is not for root
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_NPROC, &none) != 0) return kCouldStart;
  try {
    const ProgressThread thread([] {});
    return kCouldStart;
  } catch (const std::system_error&) {
  }
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return ::sigismember(&mask, SIGTERM) == 0 ? kLeftAlone : kBlocked;
}

// The application's thread would be deaf to SIGTERM from then on, and so would those it starts.
TEST(ProgressThreadTest, OneThatCannotBeStartedLeavesTheSignalsAlone) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(try_to_start_one());
  int end = -1;
  ASSERT_EQ(child, ::waitpid(child, &end, 0));
  ASSERT_TRUE(WIFEXITED(end));
  if (WEXITSTATUS(end) == kCouldStart) GTEST_SKIP() << "no limit on threads has an effect here";
  EXPECT_EQ(WEXITSTATUS(end), kLeftAlone);
}

}  // namespace
}  // namespace lyre::nccl_adapter
