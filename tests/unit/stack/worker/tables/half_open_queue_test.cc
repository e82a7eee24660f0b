#include "stack/worker/tables/half_open_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace lyre::worker {
namespace {

struct Queue {
  explicit Queue(uint32_t share, uint32_t sessions_max = 16)
      : sessions(sessions_max), queue(sessions.data(), share, /*listeners_max=*/4) {}
  void add(uint32_t conn, uint32_t listener = 0) {
    sessions[conn].listener = listener;
    queue.add(conn);
  }

  std::vector<session::Session> sessions;
  HalfOpenQueue queue;
};

TEST(HalfOpenQueue, TheOldestIsDroppedWhoeverIsRemoved) {
  Queue at(4);
  EXPECT_EQ(at.queue.first_to_drop(), HalfOpenQueue::kNone);
  for (const uint32_t conn : {3u, 1u, 2u}) at.add(conn);
  EXPECT_EQ(at.queue.first_to_drop(), 3u);
  at.queue.remove(1);
  at.queue.remove(3);
  EXPECT_EQ(at.queue.first_to_drop(), 2u);
  at.queue.remove(2);
  EXPECT_TRUE(at.queue.empty());
  EXPECT_EQ(at.queue.first_to_drop(0), HalfOpenQueue::kNone);
}

TEST(HalfOpenQueue, AFloodToOneListenerDropsItsOwn) {
  Queue at(8);
  at.add(0, 1);  // the oldest of all
  for (uint32_t conn = 1; conn < 8; ++conn) at.add(conn, 2);
  EXPECT_EQ(at.queue.first_to_drop(2), 1u);
  EXPECT_EQ(at.queue.first_to_drop(1), 1u);
  EXPECT_EQ(at.queue.first_to_drop(), 1u) << "an open of this host drops of the same";
  for (uint32_t conn = 1; conn < 7; ++conn) at.queue.remove(conn);
  EXPECT_EQ(at.queue.first_to_drop(1), 0u) << "both have one: each drops its own";
  EXPECT_EQ(at.queue.first_to_drop(2), 7u);
  at.queue.remove(7);
  EXPECT_EQ(at.queue.first_to_drop(2), 0u);
}

TEST(HalfOpenQueue, TheShareIsUsedWhileSoManyHandshakesAreUnderWay) {
  Queue at(2);
  at.add(0, 1);
  EXPECT_FALSE(at.queue.is_share_used());
  at.add(1, 2);
  EXPECT_TRUE(at.queue.is_share_used());
  at.queue.remove(0);
  EXPECT_FALSE(at.queue.is_share_used());
}

TEST(HalfOpenQueue, AShareIsOnePlaceAtLeast) {
  Queue at(0);
  EXPECT_FALSE(at.queue.is_share_used());
  at.add(0);
  EXPECT_TRUE(at.queue.is_share_used());
}

}  // namespace
}  // namespace lyre::worker
