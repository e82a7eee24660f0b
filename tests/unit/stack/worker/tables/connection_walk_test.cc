#include "stack/worker/tables/connection_walk.h"

#include <gtest/gtest.h>

#include <vector>

namespace lyre::worker {
namespace {

TEST(ConnectionWalk, VisitsEachConnectionOnceInBoundedSteps) {
  ConnectionWalk walk;
  EXPECT_FALSE(walk.is_under_way());
  walk.begin();
  std::vector<uint32_t> seen;
  std::vector<uint32_t> steps;
  while (walk.is_under_way()) {
    steps.push_back(walk.step(7, 3, [&](uint32_t conn) { seen.push_back(conn); }));
  }
  EXPECT_EQ(seen, (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(steps, (std::vector<uint32_t>{3, 3, 1}));
}

TEST(ConnectionWalk, BeginsAnewWhileItIsUnderWay) {
  ConnectionWalk walk;
  walk.begin();
  walk.step(4, 3, [](uint32_t) {});
  walk.begin();
  std::vector<uint32_t> seen;
  while (walk.is_under_way()) walk.step(4, 3, [&](uint32_t conn) { seen.push_back(conn); });
  EXPECT_EQ(seen.size(), 4u);
  walk.begin();
  EXPECT_EQ(walk.step(0, 3, [](uint32_t) {}), 0u);  // there are none
  EXPECT_FALSE(walk.is_under_way());
}

}  // namespace
}  // namespace lyre::worker
