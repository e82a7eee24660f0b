#include "daemon/shutdown.h"

#include <gtest/gtest.h>

#include "daemon/base/daemon_limits.h"
#include "tests/unit/daemon/fake_workers.h"

namespace lyre {
namespace {

class ShutdownTest : public ::testing::Test {
 protected:
  void answer(uint32_t worker) {
    workers_.answer(worker, worker::Reply::Kind::kShutDown, 0);
    std::vector<Expulsion> none;
    registry_.poll(none);
  }

  FakeWorkers workers_{2};
  ContextRegistry registry_{workers_, {.contexts_max = 4}};
  Shutdown shutdown_{registry_};
};

TEST_F(ShutdownTest, EndsWhenEveryWorkerHasResetItsSessions) {
  EXPECT_EQ(shutdown_.state(seconds(1)), Shutdown::State::kNotAsked);
  shutdown_.begin(seconds(1));
  EXPECT_EQ(workers_.posted[0].size(), 1u);
  EXPECT_EQ(workers_.posted[1].size(), 1u);
  EXPECT_EQ(shutdown_.state(seconds(1)), Shutdown::State::kWaiting);
  answer(0);
  EXPECT_EQ(shutdown_.state(seconds(1)), Shutdown::State::kWaiting);
  answer(1);
  EXPECT_EQ(shutdown_.state(seconds(1)), Shutdown::State::kComplete);
}

TEST_F(ShutdownTest, AWorkerThatDoesNotAnswerMakesItOverdue) {
  shutdown_.begin(seconds(1));
  answer(0);
  EXPECT_EQ(shutdown_.state(seconds(1) + kShutdownTimeout), Shutdown::State::kOverdue);
  answer(1);
  EXPECT_EQ(shutdown_.state(seconds(1) + kShutdownTimeout), Shutdown::State::kComplete);
}

TEST_F(ShutdownTest, AskedTwiceTheWorkersAreToldOnce) {
  shutdown_.begin(seconds(1));
  shutdown_.begin(seconds(9));
  EXPECT_EQ(workers_.posted[0].size(), 1u);
  EXPECT_EQ(shutdown_.state(seconds(1) + kShutdownTimeout), Shutdown::State::kOverdue);
}

}  // namespace
}  // namespace lyre
