#include "daemon/workers/queue_waits.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/support/silent_queue.h"

namespace lyre {
namespace {

using io::Arming;

class WaitingQueue final : public test::SilentQueue {
 public:
  Arming arm() override {
    is_armed = true;
    return finds;
  }
  void disarm(io::Woken woken) override {
    is_armed = false;
    ++(woken == io::Woken::kByPackets ? told : untold);
    last = woken;
  }

  Arming finds = Arming::kArmed;
  bool is_armed = false;
  int told = 0;
  int untold = 0;
  std::optional<io::Woken> last;
};

class QueueWaitsTest : public ::testing::Test {
 protected:
  WaitingQueue first_, second_;
  QueueWaits waits_{{&first_, &second_}};
};

TEST_F(QueueWaitsTest, TheLeastSureQueueDecides) {
  EXPECT_EQ(waits_.arm(), Arming::kArmed);
  first_.finds = Arming::kUnsure;
  EXPECT_EQ(waits_.arm(), Arming::kUnsure);
  EXPECT_TRUE(second_.is_armed);
  second_.finds = Arming::kPackets;
  EXPECT_EQ(waits_.arm(), Arming::kPackets);
}

TEST_F(QueueWaitsTest, AQueueThatNobodyWaitsForAnnouncesNothing) {
  waits_.set_watched(1, false);
  EXPECT_EQ(waits_.arm(), Arming::kUnsure);
  waits_.set_watched(1, true);
  EXPECT_EQ(waits_.arm(), Arming::kArmed);
}

TEST_F(QueueWaitsTest, AnEventDisarmsItsQueueAndWorkDisarmsAll) {
  waits_.arm();
  waits_.on_event(1);
  EXPECT_EQ(second_.told, 1);
  EXPECT_TRUE(first_.is_armed);
  waits_.disarm(io::Woken::kByOthers);
  EXPECT_EQ(first_.untold, 1);
  EXPECT_FALSE(first_.is_armed);
  waits_.disarm(io::Woken::kByOthers);
  EXPECT_EQ(first_.untold, 1) << "queues that are not armed are left alone";
}

// A queue that was armed before another one had packets must not stay armed.
TEST_F(QueueWaitsTest, QueuesArmedInVainAreDisarmed) {
  second_.finds = Arming::kPackets;
  waits_.arm();
  waits_.disarm(io::Woken::kByOthers);
  EXPECT_FALSE(first_.is_armed);
  EXPECT_FALSE(second_.is_armed);
}

// How the sleep before ended says nothing of packets that were found instead of a sleep.
TEST_F(QueueWaitsTest, PacketsFoundWhileArmingWereNotMissedByASleep) {
  waits_.arm();
  waits_.disarm(io::Woken::kByTimeout);
  EXPECT_EQ(first_.last, io::Woken::kByTimeout);
  second_.finds = Arming::kPackets;
  waits_.arm();
  waits_.disarm(io::Woken::kByTimeout);
  EXPECT_EQ(first_.last, io::Woken::kByOthers);
  EXPECT_EQ(second_.last, io::Woken::kByOthers);
}

TEST_F(QueueWaitsTest, AWorkerWithoutPortsSleepsLong) {
  QueueWaits none{{}};
  EXPECT_EQ(none.arm(), Arming::kArmed);
}

}  // namespace
}  // namespace lyre
