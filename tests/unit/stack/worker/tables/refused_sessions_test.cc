#include "stack/worker/tables/refused_sessions.h"

#include <gtest/gtest.h>

#include <vector>

namespace lyre::worker {
namespace {

std::vector<uint32_t> visited_in_step(RefusedSessions& refused, uint32_t count_max, bool leaves) {
  std::vector<uint32_t> seen;
  refused.step(count_max, [&](uint32_t conn) {
    seen.push_back(conn);
    return leaves;
  });
  return seen;
}

TEST(RefusedSessions, EachIsThereOnceUntilItLeaves) {
  RefusedSessions refused(200);
  EXPECT_TRUE(refused.empty());
  for (const uint32_t conn : {199u, 0u, 63u, 64u, 63u}) refused.add(conn);
  const std::vector<uint32_t> all{0, 63, 64, 199};
  EXPECT_EQ(visited_in_step(refused, 100, /*leaves=*/false), all);
  EXPECT_FALSE(refused.empty());
  EXPECT_EQ(visited_in_step(refused, 100, /*leaves=*/true), all);
  EXPECT_TRUE(refused.empty());
  EXPECT_TRUE(visited_in_step(refused, 100, /*leaves=*/true).empty());
}

TEST(RefusedSessions, AStepGoesOnWhereTheLastOneEnded) {
  RefusedSessions refused(3 * 64);
  for (const uint32_t conn : {1u, 65u, 129u}) refused.add(conn);
  EXPECT_EQ(visited_in_step(refused, 2, /*leaves=*/false), (std::vector<uint32_t>{1, 65}));
  EXPECT_EQ(visited_in_step(refused, 2, /*leaves=*/false), (std::vector<uint32_t>{129, 1}));
}

// Room for one session per step, and each is refused again at once: the lowest one took all of it.
TEST(RefusedSessions, EachHasItsTurnWhereOneLeavesPerStep) {
  const std::vector<std::vector<uint32_t>> cases{{1, 2, 3}, {1, 65, 129}, {63, 64, 191}};
  for (const std::vector<uint32_t>& conns : cases) {
    RefusedSessions refused(3 * 64);
    for (const uint32_t conn : conns) refused.add(conn);
    std::vector<uint32_t> left;
    for (size_t step = 0; step < 2 * conns.size(); ++step) {
      const size_t left_before = left.size();
      refused.step(/*count_max=*/100, [&](uint32_t conn) {
        if (left.size() > left_before) return false;
        left.push_back(conn);
        return true;
      });
      ASSERT_EQ(left.size(), left_before + 1);
      refused.add(left.back());
      EXPECT_EQ(visited_in_step(refused, 100, /*leaves=*/false).size(), conns.size());
    }
    std::vector<uint32_t> two_rounds = conns;
    two_rounds.insert(two_rounds.end(), conns.begin(), conns.end());
    EXPECT_EQ(left, two_rounds);
  }
}

TEST(RefusedSessions, AStepLooksAtThePlacesBeforeItsFirstOneLast) {
  RefusedSessions refused(64);
  for (const uint32_t conn : {5u, 9u, 20u}) refused.add(conn);
  refused.step(/*count_max=*/100, [](uint32_t conn) { return conn == 9; });
  EXPECT_EQ(visited_in_step(refused, 100, /*leaves=*/false), (std::vector<uint32_t>{20, 5}));
}

TEST(RefusedSessions, AStepLooksAtSoManyPlacesAtMost) {
  constexpr uint32_t kPlacesPerStep = 64 * RefusedSessions::kWordsPerStepMax;
  RefusedSessions refused(kPlacesPerStep + 1);
  refused.add(kPlacesPerStep);
  EXPECT_TRUE(visited_in_step(refused, 1, /*leaves=*/true).empty());
  EXPECT_EQ(visited_in_step(refused, 1, /*leaves=*/true), std::vector<uint32_t>{kPlacesPerStep});
}

}  // namespace
}  // namespace lyre::worker
