#include "stack/worker/clients/context_walk.h"

#include <gtest/gtest.h>

#include <vector>

namespace lyre::worker {
namespace {

/// The contexts that a walk visits when its turn is over after `visits_max`.
std::vector<uint32_t> walk(ContextWalk& walked, const std::vector<uint32_t>& contexts,
                           size_t visits_max) {
  std::vector<uint32_t> visited;
  walked.over(contexts, [&](uint32_t index) {
    visited.push_back(index);
    return visited.size() < visits_max;
  });
  return visited;
}

using Contexts = std::vector<uint32_t>;

TEST(ContextWalkTest, VisitsEachContextOnce) {
  ContextWalk walked;
  EXPECT_EQ(walk(walked, {7, 3, 5}, 10), (Contexts{7, 3, 5}));
  EXPECT_EQ(walk(walked, {}, 10), Contexts{});
}

TEST(ContextWalkTest, AWalkThatWasCutShortGoesOnBehindTheLastContext) {
  ContextWalk walked;
  EXPECT_EQ(walk(walked, {7, 3, 5}, 2), (Contexts{7, 3}));
  EXPECT_EQ(walk(walked, {7, 3, 5}, 2), (Contexts{5, 7}));
  EXPECT_EQ(walk(walked, {7, 3, 5}, 10), (Contexts{3, 5, 7}));
}

TEST(ContextWalkTest, ContextsThatWereClosedMeanwhileDoNotHideTheOthers) {
  ContextWalk walked;
  EXPECT_EQ(walk(walked, {7, 3, 5}, 2), (Contexts{7, 3}));
  EXPECT_EQ(walk(walked, {7}, 2), (Contexts{7}));
}

}  // namespace
}  // namespace lyre::worker
