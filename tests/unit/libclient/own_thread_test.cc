#include "libclient/own_thread.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <vector>

#include "tests/unit/libclient/shared_core.h"

namespace lyre::client {
namespace {

std::vector<int> cores_of(const cpu_set_t& set) {
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
  }
  return cores;
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  EXPECT_EQ(0, ::sched_getaffinity(0, sizeof set, &set));
  return cores_of(set);
}

TEST(OwnThread, WaitsBesideAComputingThreadAreAccounted) {
  const auto before = read_run_delay();
  if (!before) GTEST_SKIP() << "the kernel keeps no account of waits for a core";
  EXPECT_EQ(::gettid(), before->thread);
  SharedCore core;
  core.yield_until([&] {
    const auto now = read_run_delay();
    return now && now->waited_ns - before->waited_ns >= 10'000'000;
  });
  const auto after = read_run_delay();
  EXPECT_EQ(before->thread, after->thread);
  EXPECT_GT(after->turns, before->turns);
}

TEST(OwnThread, MovesAndKeepsItsAffinity) {
  const std::vector<int> allowed = allowed_cores();
  if (allowed.size() < 2) GTEST_SKIP() << "this thread may use one core only";
  EXPECT_TRUE(move_to_another_core());
  EXPECT_EQ(allowed, allowed_cores());
}

TEST(OwnThread, DoesNotMoveWhereNoOtherCoreIsAllowed) {
  SharedCore core;
  const std::vector<int> allowed = allowed_cores();
  EXPECT_EQ(1u, allowed.size());
  EXPECT_FALSE(move_to_another_core());
  EXPECT_EQ(allowed, allowed_cores());
}

}  // namespace
}  // namespace lyre::client
