#include "stack/worker/tables/held_sessions.h"

#include <gtest/gtest.h>

#include <vector>

namespace lyre::worker {
namespace {

class HeldSessionsTest : public ::testing::Test {
 protected:
  void add(uint32_t conn, uint8_t port, uint64_t fence) {
    sessions_[conn].port = port;
    sessions_[conn].fence = fence;
    held_.add(conn);
  }

  std::vector<session::Session> sessions_ = std::vector<session::Session>(4);
  HeldSessions held_{sessions_.data(), 2};
};

TEST_F(HeldSessionsTest, EachPortHasItsOwnQueue) {
  add(0, 0, 10);
  add(1, 1, 5);
  EXPECT_EQ(held_.first_of(0), 0u);
  EXPECT_EQ(held_.first_of(1), 1u);
  held_.remove(1);
  EXPECT_EQ(held_.first_of(1), HeldSessions::kNone);
  EXPECT_EQ(held_.first_of(0), 0u);
}

TEST_F(HeldSessionsTest, TheSmallestFenceIsFirst) {
  add(0, 0, 10);
  add(1, 0, 12);
  add(2, 0, 8);  // was told other news meanwhile, and came back
  EXPECT_EQ(held_.first_of(0), 2u);
  held_.remove(2);
  EXPECT_EQ(held_.first_of(0), 0u);
  held_.remove(0);
  EXPECT_EQ(held_.first_of(0), 1u);
}

TEST_F(HeldSessionsTest, ASessionKnowsThatItWaits) {
  add(3, 1, 1);
  EXPECT_TRUE(sessions_[3].waits_for_port);
  EXPECT_TRUE(sessions_[3].dirty_link.is_linked());
  held_.remove(3);
  EXPECT_FALSE(sessions_[3].waits_for_port);
  EXPECT_FALSE(sessions_[3].dirty_link.is_linked());
}

}  // namespace
}  // namespace lyre::worker
