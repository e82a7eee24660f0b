#include "daemon/workers/core_keeper.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "daemon/base/daemon_limits.h"
#include "tests/unit/daemon/captured_log.h"

namespace lyre {
namespace {

using CoreList = std::vector<uint32_t>;

/// A worker on core 1, and what the kernel says of its thread.
class CoreKeeperTest : public ::testing::Test {
 protected:
  KeptCore kept_core() {
    return {.core = 1,
            .is_away = [this] { return is_away_; },
            .allowed = [this] { return allowed_; },
            .pin = [this] { return pin(); },
            .is_core_lost = &is_core_lost_};
  }
  int pin() {
    ++pins_;
    if (std::find(cpuset_.begin(), cpuset_.end(), 1u) == cpuset_.end()) return EINVAL;
    allowed_ = {1};
    return 0;
  }
  /// As kernels before 6.2 do it.
  void change_cpuset(const CoreList& cores) { cpuset_ = allowed_ = cores; }
  void look() { keeper_.look(now_ += kCoresPeriod); }

  CapturedLog log_;
  channel::StatCounter is_core_lost_{};
  bool is_away_ = false;
  CoreList cpuset_ = {0, 1, 2, 3};
  CoreList allowed_ = {1};
  int pins_ = 0;
  Nanos now_ = seconds(100);
  CoreKeeper keeper_{{kept_core()}};
};

TEST_F(CoreKeeperTest, LeavesAWorkerAloneThatIsOnItsCore) {
  look();
  EXPECT_EQ(pins_, 0);
  EXPECT_EQ(log_.text(), "");
}

TEST_F(CoreKeeperTest, PinsAWorkerAgainThatMayRunElsewhere) {
  change_cpuset({0, 1});
  look();
  EXPECT_EQ(allowed_, CoreList{1});
  EXPECT_EQ(log_.text(), "") << "nothing was lost";
  look();
  EXPECT_EQ(pins_, 1);
}

TEST_F(CoreKeeperTest, LooksOnceInAPeriod) {
  look();
  change_cpuset({0, 1});
  keeper_.look(now_ + kCoresPeriod - nanos(1));
  EXPECT_EQ(pins_, 0);
  keeper_.look(now_ + kCoresPeriod);
  EXPECT_EQ(pins_, 1);
}

TEST_F(CoreKeeperTest, LeavesAWorkerAloneThatIsAwayByItself) {
  is_away_ = true;
  change_cpuset({0, 2});
  look();
  EXPECT_EQ(pins_, 0);
  EXPECT_EQ(log_.text(), "");
}

TEST_F(CoreKeeperTest, TellsOnceOfACoreThatWasTaken) {
  change_cpuset({0, 2, 3});
  look();
  look();
  EXPECT_EQ(log_.count("worker 0: core 1 was taken from the daemon"), 1u) << log_.text();
  EXPECT_TRUE(log_.has("shares 0, 2-3 with other threads")) << log_.text();
  EXPECT_EQ(is_core_lost_.get(), 1u);
  change_cpuset({0});
  look();
  EXPECT_EQ(log_.count("was taken from the daemon"), 2u) << "the cpuset has changed again";
}

TEST_F(CoreKeeperTest, PinsAWorkerToItsCoreOnceThatIsBack) {
  change_cpuset({0});
  look();
  cpuset_ = {0, 1};  // and the thread is where it was
  look();
  EXPECT_EQ(allowed_, CoreList{1});
  EXPECT_EQ(log_.count("worker 0: pinned to core 1 again: the core is back"), 1u) << log_.text();
  EXPECT_EQ(is_core_lost_.get(), 0u);
  change_cpuset({0});
  look();
  EXPECT_EQ(log_.count("was taken from the daemon"), 2u) << "a new loss";
}

// Linux 6.2 and later.
TEST_F(CoreKeeperTest, TellsOfAWorkerThatTheKernelPinnedAgain) {
  change_cpuset({0});
  look();
  allowed_ = {1};
  look();
  look();
  EXPECT_EQ(log_.count("worker 0: pinned to core 1 again"), 1u) << log_.text();
  EXPECT_EQ(is_core_lost_.get(), 0u);
}

TEST_F(CoreKeeperTest, DoesNothingWithAThreadOfWhichTheKernelTellsNothing) {
  allowed_.clear();
  look();
  EXPECT_EQ(pins_, 0);
  EXPECT_EQ(log_.text(), "");
}

}  // namespace
}  // namespace lyre
