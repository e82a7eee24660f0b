#include "nccl_adapter/daemon_link/clock_look.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace lyre::nccl_adapter {
namespace {

class ClockLookTest : public testing::Test {
 protected:
  ClockLookTest() {
    for (uint64_t key = 0; key < 10; ++key) comms_[key] = static_cast<int>(key);
  }
  bool go_on(size_t most) {
    return look_.go_on(comms_, most, [&](int comm) { visited_.push_back(comm); });
  }

  std::map<uint64_t, int> comms_;
  std::vector<int> visited_;
  ClockLook look_;
};

TEST_F(ClockLookTest, VisitsAllInParts) {
  for (int round = 0; round < 2; ++round) {
    visited_.clear();
    EXPECT_FALSE(look_.is_under_way());
    EXPECT_FALSE(go_on(4));
    EXPECT_EQ(visited_.size(), 4u);
    EXPECT_TRUE(look_.is_under_way());
    EXPECT_FALSE(go_on(4));
    EXPECT_TRUE(go_on(4));
    EXPECT_EQ(visited_, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
}

TEST_F(ClockLookTest, EndsWithTheLastOne) {
  EXPECT_FALSE(go_on(5));
  EXPECT_TRUE(go_on(5));
  EXPECT_FALSE(look_.is_under_way());
}

TEST_F(ClockLookTest, OfNoCommsEndsAtOnce) {
  comms_.clear();
  EXPECT_TRUE(go_on(4));
  EXPECT_FALSE(look_.is_under_way());
}

TEST_F(ClockLookTest, VisitsWhatIsAddedAndNotWhatIsErased) {
  EXPECT_FALSE(go_on(4));
  comms_.erase(3);
  comms_.erase(4);
  comms_[20] = 20;
  EXPECT_TRUE(go_on(10));
  EXPECT_EQ(visited_, (std::vector<int>{0, 1, 2, 3, 5, 6, 7, 8, 9, 20}));
  EXPECT_FALSE(go_on(4));
  comms_.clear();
  EXPECT_TRUE(go_on(4));
}

TEST_F(ClockLookTest, IsDueForTicksAndForWhatIsShown) {
  constexpr int64_t kNow = 1'000'000'000;
  look_.note_tick(kNow);
  EXPECT_TRUE(look_.is_due(kNow, true));
  EXPECT_TRUE(look_.shows() && !look_.ticks());
  EXPECT_FALSE(look_.is_due(kNow + kTickNs - 1, true));
  EXPECT_FALSE(look_.is_due(kNow + kTickNs, false)) << "without a daemon";
  EXPECT_TRUE(look_.is_due(kNow + kTickNs, true));
  EXPECT_TRUE(look_.ticks() && !look_.shows());
  EXPECT_FALSE(go_on(4));
  EXPECT_TRUE(look_.is_due(kNow + kTickNs, true)) << "its other parts";
  EXPECT_TRUE(go_on(6));
  EXPECT_EQ(look_.note_tick(kNow + kTickNs + 5), kTickNs + 5);
  EXPECT_FALSE(look_.is_due(kNow + 2 * kTickNs, true));
  EXPECT_TRUE(look_.is_due(kNow + 2 * kTickNs + 5, true));
}

}  // namespace
}  // namespace lyre::nccl_adapter
