#include "daemon/workers/crowded_host.h"

#include <gtest/gtest.h>

#include "tests/unit/machine/tree.h"

namespace lyre {
namespace {

class Crowd : public testing::Test {
 protected:
  void set_runnable(int count) {
    tree_.write("proc/loadavg", "1.00 1.00 1.00 " + std::to_string(count) + "/100 1\n");
  }
  /// The answer of the last of so many looks.
  bool look(int times) {
    bool answer = false;
    for (int i = 0; i < times; ++i) {
      now_ += CrowdedHost::kLookEvery;
      answer = host().look(now_);
    }
    return answer;
  }
  CrowdedHost& host() {
    if (!host_) host_ = std::make_unique<CrowdedHost>(tree_.path("proc/loadavg").string(), 2);
    return *host_;
  }
  machine::Tree tree_;
  std::unique_ptr<CrowdedHost> host_;
  Nanos now_ = seconds(1);
};

TEST_F(Crowd, NeedsMoreThreadsThanProcessors) {
  set_runnable(2);
  EXPECT_FALSE(look(20));
  set_runnable(3);
  EXPECT_TRUE(look(20));
}

TEST_F(Crowd, IsNotToldByOneLook) {
  set_runnable(9);
  EXPECT_FALSE(look(1));
  EXPECT_TRUE(look(20));
  set_runnable(1);
  EXPECT_TRUE(look(1));
  EXPECT_FALSE(look(20));
}

TEST_F(Crowd, IsNeverThereWhereTheKernelDoesNotTell) { EXPECT_FALSE(look(20)); }

TEST_F(Crowd, IsLookedForOnceInAWhile) {
  set_runnable(1);
  EXPECT_TRUE(host().is_due(now_));
  host().look(now_);
  EXPECT_FALSE(host().is_due(now_ + CrowdedHost::kLookEvery - nanos(1)));
  EXPECT_TRUE(host().is_due(now_ + CrowdedHost::kLookEvery));
}

}  // namespace
}  // namespace lyre
