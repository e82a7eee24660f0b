#include "machine/scheduling.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/machine/tree.h"

namespace lyre::machine {
namespace {

TEST(RunnableThreads, AreTheFirstNumberOfTheFourthWord) {
  EXPECT_EQ(runnable_threads("1.03 2.56 2.62 3/75 23485\n"), 3u);
  EXPECT_EQ(runnable_threads("0.00 0.01 0.05 17/1024 9"), 17u);
}

TEST(RunnableThreads, OfAnotherTextAreNotKnown) {
  for (const char* text :
       {"", "1.03 2.56 2.62", "1.03 2.56 2.62 3", "1.03 2.56 2.62 x/75 1", "a b c -1/2"}) {
    EXPECT_FALSE(runnable_threads(text)) << text;
  }
}

class Groups : public testing::Test {
 protected:
  void SetUp() override {
    tree_.write("proc/sys/kernel/sched_autogroup_enabled", "1\n");
    add("self", "0::/system.slice/lyred.service", 1);
  }
  void add(const std::string& process, const std::string& cgroup, int session) {
    tree_.write("proc/" + process + "/cgroup", cgroup + "\n");
    tree_.write("proc/" + process + "/autogroup",
                "/autogroup-" + std::to_string(session) + " nice 0\n");
  }
  void give_cpu(const std::string& path) {
    tree_.write("sys/fs/cgroup/" + path + "/cpu.weight", "100\n");
  }
  bool is_own(int32_t pid) { return is_of_own_group(tree_.roots(), pid); }
  Tree tree_;
};

TEST_F(Groups, AreTheNearestCgroupsWithTheCpuController) {
  give_cpu("system.slice");
  add("17", "0::/system.slice/other.service", 2);
  add("18", "0::/user.slice/session-1.scope", 1);
  EXPECT_TRUE(is_own(17)) << "the services have no groups of their own";
  EXPECT_FALSE(is_own(18));
  give_cpu("system.slice/lyred.service");
  EXPECT_FALSE(is_own(17));
}

TEST_F(Groups, AreSessionsOutsideOfThose) {
  add("17", "0::/user.slice/session-1.scope", 1);
  add("18", "0::/system.slice/lyred.service", 2);
  EXPECT_TRUE(is_own(17));
  EXPECT_FALSE(is_own(18));
  tree_.write("proc/sys/kernel/sched_autogroup_enabled", "0\n");
  EXPECT_TRUE(is_own(18));
}

TEST_F(Groups, AreThoseOfTheCpuHierarchyInVersionOne) {
  add("self", "4:cpu,cpuacct:/a\n0::/x", 1);
  add("17", "4:cpu,cpuacct:/a\n0::/y", 2);
  add("18", "4:cpuset:/a\n3:cpu:/\n0::/x", 1);
  EXPECT_TRUE(is_own(17));
  EXPECT_FALSE(is_own(18));
}

TEST_F(Groups, OfAContainerAreOneForAllItsSessions) {  // its root is no root of the machine
  tree_.write("sys/fs/cgroup/cpu.weight", "100\n");
  add("self", "0::/", 1);
  add("17", "0::/", 2);
  add("18", "0::/../other", 1);
  EXPECT_TRUE(is_own(17));
  EXPECT_FALSE(is_own(18));
}

TEST_F(Groups, OfAProcessThatIsNotVisibleAreOthers) {
  EXPECT_FALSE(is_own(0));
  EXPECT_FALSE(is_own(20));
}

TEST(Group, OfThisProcessIsItsOwn) { EXPECT_TRUE(is_of_own_group(Roots{}, ::getpid())); }

}  // namespace
}  // namespace lyre::machine
