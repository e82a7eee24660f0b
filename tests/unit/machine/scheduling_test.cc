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
    add("self", "/system.slice/lyred.service", "/autogroup-1 nice 0");
    add("17", "/system.slice/lyred.service", "/autogroup-1 nice 0");
    add("18", "/user.slice/session-1.scope", "/autogroup-1 nice 0");
    add("19", "/system.slice/lyred.service", "/autogroup-2 nice 0");
    tree_.write("proc/sys/kernel/sched_autogroup_enabled", "1\n");
  }
  void add(const std::string& process, const std::string& cgroup, const std::string& autogroup) {
    tree_.write("proc/" + process + "/cgroup", "0::" + cgroup + "\n");
    tree_.write("proc/" + process + "/autogroup", autogroup + "\n");
  }
  Tree tree_;
};

TEST_F(Groups, AreCgroups) {
  EXPECT_TRUE(is_of_own_group(tree_.roots(), 17));
  EXPECT_FALSE(is_of_own_group(tree_.roots(), 18));
}

TEST_F(Groups, AreSessionsWhereTheKernelGroupsThem) {
  EXPECT_FALSE(is_of_own_group(tree_.roots(), 19));
  tree_.write("proc/sys/kernel/sched_autogroup_enabled", "0\n");
  EXPECT_TRUE(is_of_own_group(tree_.roots(), 19));
}

TEST_F(Groups, OfAProcessThatIsNotVisibleAreOthers) {
  EXPECT_FALSE(is_of_own_group(tree_.roots(), 0));
  EXPECT_FALSE(is_of_own_group(tree_.roots(), 20));
}

TEST(Group, OfThisProcessIsItsOwn) { EXPECT_TRUE(is_of_own_group(Roots{}, ::getpid())); }

}  // namespace
}  // namespace lyre::machine
