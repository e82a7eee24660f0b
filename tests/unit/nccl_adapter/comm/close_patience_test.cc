#include "nccl_adapter/comm/close_patience.h"

#include <gtest/gtest.h>

namespace lyre::nccl_adapter {
namespace {

constexpr int64_t kLong = kCloseWaitNs;
constexpr int64_t kShort = ClosePatience::kFollowerWaitNs;

// The abort of a ring of 250 comms took four minutes.
TEST(ClosePatience, ClosesThatFollowAVainOneHardlyWait) {
  ClosePatience patience;
  int64_t now = 5 * kLong;
  EXPECT_EQ(patience.deadline_ns(now), now + kLong);
  now += kLong;
  patience.on_closed(true, now);
  for (int i = 0; i < 250; ++i) {
    EXPECT_EQ(patience.deadline_ns(now), now + kShort) << i;
    now += kShort;
    patience.on_closed(true, now);
  }
}

TEST(ClosePatience, ACloseLaterWaitsAsLongAsTheFirst) {
  ClosePatience patience;
  int64_t now = 5 * kLong;
  patience.on_closed(true, now);
  now += ClosePatience::kFollowsWithinNs;
  EXPECT_EQ(patience.deadline_ns(now), now + kLong);
}

TEST(ClosePatience, SoDoesOneAfterAllWasPlaced) {
  ClosePatience patience;
  const int64_t now = 5 * kLong;
  patience.on_closed(true, now);
  patience.on_closed(false, now);
  EXPECT_EQ(patience.deadline_ns(now), now + kLong);
}

// The goodbyes of both closes between two that wait may take longer than kFollowsWithinNs together.
TEST(ClosePatience, AReceiversCloseInBetweenChangesNothing) {
  ClosePatience patience;
  int64_t now = 5 * kLong;
  patience.on_closed(true, now);
  for (int i = 0; i < 10; ++i) {
    const int64_t begun = now;
    now += ClosePatience::kFollowerGoodbyeNs;
    patience.on_closed_without_result(begun, now);
  }
  EXPECT_EQ(patience.deadline_ns(now), now + kShort);
}

TEST(ClosePatience, ACloseWithoutResultDoesNotRenewAnOldOne) {
  ClosePatience patience;
  int64_t now = 5 * kLong;
  patience.on_closed_without_result(now, now);
  EXPECT_EQ(patience.deadline_ns(now), now + kLong);
  patience.on_closed(true, now);
  now += ClosePatience::kFollowsWithinNs;
  patience.on_closed_without_result(now, now);
  EXPECT_EQ(patience.deadline_ns(now), now + kLong);
}

}  // namespace
}  // namespace lyre::nccl_adapter
