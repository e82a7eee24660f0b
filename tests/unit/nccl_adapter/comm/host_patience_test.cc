#include "nccl_adapter/comm/host_patience.h"

#include <gtest/gtest.h>

namespace lyre::nccl_adapter {
namespace {

constexpr int64_t kFullWaitNs = kCloseWaitNs;
constexpr int64_t kBriefWaitNs = ClosePatience::kFollowerGoodbyeNs;
constexpr int64_t kBegunNs = 5 * kFullWaitNs;

TEST(HostPatience, AVainCloseMakesThoseOfTheSameHostShort) {
  HostPatience patience;
  EXPECT_EQ(patience.deadline_ns("a", kBegunNs), kBegunNs + kFullWaitNs);
  patience.on_closed("a", true, kBegunNs);
  EXPECT_EQ(patience.deadline_ns("a", kBegunNs), kBegunNs + kBriefWaitNs);
  EXPECT_EQ(patience.deadline_ns("b", kBegunNs), kBegunNs + kFullWaitNs);
}

// A finalize waits longer than a close: the daemon of that host may come back.
TEST(HostPatience, AVainCloseDoesNotMakeAFinalizeShort) {
  HostPatience patience;
  patience.on_closed("a", true, kBegunNs);
  EXPECT_FALSE(patience.have_vanished({"a"}, kBegunNs));
}

TEST(HostPatience, AVainFinalizeMakesLaterEndsShort) {
  HostPatience patience;
  patience.on_finalized_in_vain("a", kBegunNs);
  const int64_t later = kBegunNs + HostPatience::kVanishedNs - 1;
  EXPECT_TRUE(patience.have_vanished({"a"}, later));
  EXPECT_EQ(patience.deadline_ns("a", later), later + kBriefWaitNs);
  EXPECT_FALSE(patience.have_vanished({"a"}, later + 1));
  EXPECT_EQ(patience.deadline_ns("a", later + 1), later + 1 + kFullWaitNs);
}

TEST(HostPatience, AVainReleaseMakesThoseOfTheSameHostShort) {
  HostPatience patience;
  EXPECT_EQ(patience.release_deadline_ns("a", kBegunNs), kBegunNs + kDeregisterWaitNs);
  patience.on_released_in_vain("a", kBegunNs - kDeregisterWaitNs, kBegunNs);
  EXPECT_EQ(patience.release_deadline_ns("a", kBegunNs), kBegunNs + kBriefWaitNs);
  EXPECT_EQ(patience.release_deadline_ns("b", kBegunNs), kBegunNs + kDeregisterWaitNs);
  EXPECT_EQ(patience.deadline_ns("a", kBegunNs), kBegunNs + kFullWaitNs) << "of a close";
  patience.on_closed("a", false, kBegunNs);
  EXPECT_EQ(patience.release_deadline_ns("a", kBegunNs), kBegunNs + kDeregisterWaitNs);
}

// The close after it follows the one before all the same.
TEST(HostPatience, AReleaseAfterAVainCloseIsShortAndDoesNotCount) {
  HostPatience patience;
  patience.on_closed("a", true, kBegunNs);
  int64_t now_ns = kBegunNs;
  for (int i = 0; i < 3; ++i) {  // together longer than a close may follow
    const int64_t begun_ns = now_ns;
    now_ns = patience.release_deadline_ns("a", begun_ns);
    EXPECT_EQ(now_ns, begun_ns + kBriefWaitNs);
    patience.on_released_in_vain("a", begun_ns, now_ns);
  }
  EXPECT_EQ(patience.deadline_ns("a", now_ns), now_ns + kBriefWaitNs);
}

TEST(HostPatience, AFinalizeWaitsWhereOneOfItsHostsMayBeThere) {
  HostPatience patience;
  patience.on_finalized_in_vain("a", kBegunNs);
  EXPECT_FALSE(patience.have_vanished({"a", "b"}, kBegunNs));
  EXPECT_FALSE(patience.have_vanished({}, kBegunNs));
}

TEST(HostPatience, AHostThatWasHeardHasNotVanished) {
  HostPatience patience;
  patience.on_finalized_in_vain("a", kBegunNs);
  patience.on_closed("a", false, kBegunNs);
  EXPECT_FALSE(patience.have_vanished({"a"}, kBegunNs));
  EXPECT_EQ(patience.deadline_ns("a", kBegunNs), kBegunNs + kFullWaitNs);
}

}  // namespace
}  // namespace lyre::nccl_adapter
