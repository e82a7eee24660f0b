#include "libclient/own_thread.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
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

class CoreAvoidanceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (allowed_.size() < 2) GTEST_SKIP() << "this thread may use one core only";
  }

  const std::vector<int> allowed_ = allowed_cores();
};

TEST_F(CoreAvoidanceTest, KeepsTheThreadOffItsCoreUntilTheEnd) {
  CoreAvoidance avoidance;
  ASSERT_TRUE(avoidance.begin());
  const std::vector<int> others = allowed_cores();
  EXPECT_EQ(allowed_.size() - 1, others.size());
  EXPECT_TRUE(std::ranges::includes(allowed_, others));
  avoidance.end();
  EXPECT_EQ(allowed_, allowed_cores());
}

TEST_F(CoreAvoidanceTest, AnotherThreadMayEndIt) {
  CoreAvoidance avoidance;
  ASSERT_TRUE(avoidance.begin());
  std::thread([&] { avoidance.end(); }).join();
  EXPECT_EQ(allowed_, allowed_cores());
}

TEST_F(CoreAvoidanceTest, TwoOfOneThreadLeaveItsAffinityAsItWas) {
  CoreAvoidance one, other;
  ASSERT_TRUE(one.begin());
  ASSERT_TRUE(other.begin());
  EXPECT_EQ(allowed_.size() - 1, allowed_cores().size());
  one.end();
  other.end();
  EXPECT_EQ(allowed_, allowed_cores());
}

TEST_F(CoreAvoidanceTest, AnAffinityThatSomebodyElseSetStays) {
  cpu_set_t all;
  ASSERT_EQ(0, ::sched_getaffinity(0, sizeof all, &all));
  CoreAvoidance avoidance;
  ASSERT_TRUE(avoidance.begin());
  cpu_set_t others = all;
  CPU_CLR(static_cast<size_t>(allowed_cores()[0]), &others);
  ASSERT_EQ(0, ::sched_setaffinity(0, sizeof others, &others));
  const std::vector<int> set = allowed_cores();
  avoidance.end();
  EXPECT_EQ(set, allowed_cores());
  ::sched_setaffinity(0, sizeof all, &all);
}

TEST_F(CoreAvoidanceTest, AnAffinityThatLooksLikeAFormerOneIsTheThreadsOwn) {
  cpu_set_t all, without;
  ASSERT_EQ(0, ::sched_getaffinity(0, sizeof all, &all));
  CoreAvoidance avoidance;
  ASSERT_TRUE(avoidance.begin());
  ASSERT_EQ(0, ::sched_getaffinity(0, sizeof without, &without));
  avoidance.end();
  ASSERT_EQ(0, ::sched_setaffinity(0, sizeof without, &without));
  const std::vector<int> own = allowed_cores();
  avoidance.begin();
  EXPECT_TRUE(std::ranges::includes(own, allowed_cores()));
  avoidance.end();
  EXPECT_EQ(own, allowed_cores());
  ::sched_setaffinity(0, sizeof all, &all);
}

TEST(OwnThread, HasNoOtherCoreWhereOneIsAllowed) {
  SharedCore core;
  const std::vector<int> allowed = allowed_cores();
  EXPECT_EQ(1u, allowed.size());
  CoreAvoidance avoidance;
  EXPECT_FALSE(avoidance.begin());
  EXPECT_EQ(allowed, allowed_cores());
}

}  // namespace
}  // namespace lyre::client
