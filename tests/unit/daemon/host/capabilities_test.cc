#include "daemon/host/capabilities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>

namespace lyre {
namespace {

/// Runs `body` in a process of its own, since what is dropped is dropped for ever; its result.
template <typename Body>
int in_a_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Capabilities permitted_of(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  for (std::string word; status >> word;) {
    if (word != "CapPrm:") continue;
    status >> word;
    return std::stoull(word, nullptr, 16);
  }
  return ~Capabilities{0};
}

class CapabilitiesTest : public testing::Test {
 protected:
  void SetUp() override {
    if ((effective_capabilities() & kSome) != kSome) GTEST_SKIP() << "needs capabilities to drop";
  }
  static constexpr Capabilities kSome = capability(CAP_NET_RAW) | capability(CAP_SYS_ADMIN);
};

TEST_F(CapabilitiesTest, ThreadsThatRunLoseThemToo) {
  EXPECT_EQ(in_a_child([] {
              std::atomic<pid_t> thread{0};
              std::thread([&] {
                thread = ::gettid();
                while (thread != 0) ::pause();
              }).detach();
              while (thread == 0) std::this_thread::yield();
              if (permitted_of(thread) == capability(CAP_NET_RAW)) return 1;
              if (!drop_capabilities(capability(CAP_NET_RAW)).ok()) return 2;
              if (effective_capabilities() != capability(CAP_NET_RAW)) return 3;
              if (permitted_of(thread) != capability(CAP_NET_RAW)) return 4;
              return ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : 5;
            }),
            0);
}

TEST_F(CapabilitiesTest, WhatIsDroppedDoesNotComeBack) {
  EXPECT_EQ(in_a_child([] {
              if (!drop_capabilities(0).ok()) return 1;
              if (!drop_capabilities(kSome).ok()) return 2;
              return effective_capabilities() == 0 ? 0 : 3;
            }),
            0);
}

TEST_F(CapabilitiesTest, AThreadThatBlocksTheSignalIsNamed) {
  EXPECT_EQ(in_a_child([] {
              std::atomic<pid_t> thread{0};
              std::thread([&] {
                sigset_t all;
                sigfillset(&all);
                ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
                thread = ::gettid();
                while (thread != 0) ::pause();
              }).detach();
              while (thread == 0) std::this_thread::yield();
              const Status dropped = drop_capabilities(0);
              if (dropped.ok()) return 1;
              return dropped.error().text ==
                             "thread " + std::to_string(thread) + " keeps its capabilities"
                         ? 0
                         : 2;
            }),
            0);
}

/// Drops all of them while `more` further files can be opened; what went wrong, or "".
std::string failure_with_files(unsigned more) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const int status = in_a_child([&] {
    const int next = ::dup(0);
    ::close(next);
    const rlimit files{next + more, next + more};
    if (next < 0 || ::setrlimit(RLIMIT_NOFILE, &files) != 0) return 1;
    const Status dropped = drop_capabilities(0);
    const std::string said = dropped.ok() ? "" : dropped.error().text;
    return ::write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? 0 : 2;
  });
  EXPECT_EQ(status, 0);
  ::close(ends[1]);
  char said[256];
  const ssize_t bytes = ::read(ends[0], said, sizeof said);
  ::close(ends[0]);
  return std::string(said, static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
}

// A thread that cannot be looked at may have all capabilities.
TEST_F(CapabilitiesTest, WhatCannotBeLookedAtIsAFailure) {
  EXPECT_THAT(failure_with_files(0), testing::HasSubstr("/proc/self/task: "));
  EXPECT_THAT(failure_with_files(1), testing::HasSubstr("/status: "));
  EXPECT_EQ(failure_with_files(8), "");
}

TEST(CapabilityNames, AreThoseOfTheManual) {
  EXPECT_EQ(names_of(0), "");
  EXPECT_EQ(names_of(capability(CAP_NET_RAW) | capability(CAP_NET_ADMIN)),
            "CAP_NET_ADMIN CAP_NET_RAW");
  EXPECT_EQ(names_of(capability(60)), "60");
}

}  // namespace
}  // namespace lyre
