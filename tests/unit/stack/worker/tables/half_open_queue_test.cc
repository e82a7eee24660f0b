#include "stack/worker/tables/half_open_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace lyre::worker {
namespace {

TEST(HalfOpenQueue, TheOldestIsFirstWhoeverIsRemoved) {
  std::vector<session::Session> sessions(4);
  HalfOpenQueue queue(sessions.data(), 4);
  EXPECT_EQ(queue.oldest(), HalfOpenQueue::kNone);
  for (const uint32_t conn : {3u, 1u, 2u}) queue.add(conn);
  EXPECT_EQ(queue.oldest(), 3u);
  queue.remove(1);
  queue.remove(3);
  EXPECT_EQ(queue.oldest(), 2u);
  queue.remove(2);
  EXPECT_TRUE(queue.empty());
}

TEST(HalfOpenQueue, TheShareIsUsedWhileSoManyHandshakesAreUnderWay) {
  std::vector<session::Session> sessions(3);
  HalfOpenQueue queue(sessions.data(), 2);
  queue.add(0);
  EXPECT_FALSE(queue.is_share_used());
  queue.add(1);
  EXPECT_TRUE(queue.is_share_used());
  queue.remove(0);
  EXPECT_FALSE(queue.is_share_used());
}

TEST(HalfOpenQueue, AShareIsOnePlaceAtLeast) {
  std::vector<session::Session> sessions(1);
  HalfOpenQueue queue(sessions.data(), 0);
  EXPECT_FALSE(queue.is_share_used());
  queue.add(0);
  EXPECT_TRUE(queue.is_share_used());
}

}  // namespace
}  // namespace lyre::worker
