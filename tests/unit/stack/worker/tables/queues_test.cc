#include <gtest/gtest.h>

#include <vector>

#include "stack/worker/tables/time_wait_queue.h"
#include "stack/worker/tables/transmit_queue.h"

namespace lyre::worker {
namespace {

TEST(TransmitQueue, GivesEachScheduledSessionOneTurnInOrder) {
  std::vector<session::Session> sessions(4);
  TransmitQueue queue(sessions.data());
  for (const uint32_t conn : {2u, 0u, 2u, 3u}) queue.schedule(conn);
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_EQ(queue.take(), 2u);
  queue.schedule(2);  // has more: behind the others
  EXPECT_EQ(queue.take(), 0u);
  EXPECT_EQ(queue.take(), 3u);
  EXPECT_EQ(queue.take(), 2u);
  EXPECT_TRUE(queue.empty());
}

TEST(TransmitQueue, ForgetsASessionWhereverItStands) {
  std::vector<session::Session> sessions(3);
  TransmitQueue queue(sessions.data());
  for (uint32_t conn = 0; conn < 3; ++conn) queue.schedule(conn);
  queue.remove(1);
  queue.remove(1);
  EXPECT_EQ(queue.take(), 0u);
  queue.remove(2);
  EXPECT_TRUE(queue.empty());
}

TEST(TransmitQueue, WakesAFewOfThoseThatWaitedWhenTheWakingBegan) {
  std::vector<session::Session> sessions(6);
  TransmitQueue queue(sessions.data());
  for (uint32_t conn = 0; conn < 5; ++conn) queue.wait_for_neighbour(conn);
  queue.wake_some(9);
  EXPECT_TRUE(queue.empty()) << "nothing was learned";
  queue.begin_waking();
  queue.wait_for_neighbour(5);  // waits for what is learned later
  queue.wake_some(3);
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_TRUE(queue.is_waking());
  queue.remove(3);
  queue.wake_some(1);
  queue.wake_some(9);
  EXPECT_FALSE(queue.is_waking());
  for (const uint32_t conn : {0u, 1u, 2u, 4u}) EXPECT_EQ(queue.take(), conn);
}

TEST(TransmitQueue, WhoIsScheduledWaitsNoMore) {
  std::vector<session::Session> sessions(2);
  TransmitQueue queue(sessions.data());
  queue.wait_for_neighbour(1);
  queue.schedule(1);
  EXPECT_EQ(queue.size(), 1u);
  queue.begin_waking();
  EXPECT_FALSE(queue.is_waking());
  EXPECT_EQ(queue.take(), 1u);
  queue.wait_for_neighbour(1);
  queue.remove(1);
  queue.begin_waking();
  queue.wake_some(9);
  EXPECT_TRUE(queue.empty());
}

TEST(TimeWaitQueue, TheOldestGivesWayFirst) {
  std::vector<session::Session> sessions(4);
  TimeWaitQueue queue(sessions.data());
  EXPECT_EQ(queue.oldest(), TimeWaitQueue::kNone);
  for (const uint32_t conn : {3u, 1u, 2u, 1u}) queue.add(conn);
  EXPECT_EQ(queue.oldest(), 3u);
  queue.remove(3);
  EXPECT_FALSE(queue.holds(3));
  EXPECT_EQ(queue.oldest(), 1u);
  queue.remove(0);
  queue.remove(1);
  queue.remove(2);
  EXPECT_TRUE(queue.empty());
}

TEST(TimeWaitQueue, DoesNotHoldWhatAClientOwns) {
  std::vector<session::Session> sessions(2);
  TimeWaitQueue queue(sessions.data());
  IndexList<session::Session, &session::Session::owner_link> owned;
  sessions[0].context = 5;
  owned.push_back(sessions, 0);
  EXPECT_FALSE(queue.holds(0));
  queue.remove(0);
  EXPECT_EQ(owned.front(), 0u);
}

}  // namespace
}  // namespace lyre::worker
