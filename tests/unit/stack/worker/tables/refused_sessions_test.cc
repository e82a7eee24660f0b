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

TEST(RefusedSessions, AStepLooksAtSoManyPlacesAtMost) {
  constexpr uint32_t kPlacesPerStep = 64 * RefusedSessions::kWordsPerStepMax;
  RefusedSessions refused(kPlacesPerStep + 1);
  refused.add(kPlacesPerStep);
  EXPECT_TRUE(visited_in_step(refused, 1, /*leaves=*/true).empty());
  EXPECT_EQ(visited_in_step(refused, 1, /*leaves=*/true), std::vector<uint32_t>{kPlacesPerStep});
}

}  // namespace
}  // namespace lyre::worker
