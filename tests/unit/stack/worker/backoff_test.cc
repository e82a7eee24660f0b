#include "stack/worker/backoff.h"

#include <gtest/gtest.h>

namespace lyre::worker {
namespace {

TEST(Backoff, DoublesUpToItsLimit) {
  Backoff backoff(millis(1), millis(3));
  EXPECT_EQ(backoff.next_deadline(), kNever);
  EXPECT_FALSE(backoff.stall(seconds(1)));
  EXPECT_EQ(backoff.next_deadline(), seconds(1) + millis(1));
  EXPECT_FALSE(backoff.stall(seconds(1) + micros(999)));
  EXPECT_TRUE(backoff.stall(seconds(1) + millis(1)));
  EXPECT_EQ(backoff.next_deadline(), seconds(1) + millis(3));
  EXPECT_TRUE(backoff.stall(seconds(1) + millis(3)));
  EXPECT_EQ(backoff.next_deadline(), seconds(1) + millis(6));
  EXPECT_TRUE(backoff.stall(seconds(2)));
  EXPECT_EQ(backoff.next_deadline(), seconds(2) + millis(3));
}

TEST(Backoff, BeginsAnewWhenItWentOn) {
  Backoff backoff(millis(1), millis(8));
  backoff.stall(seconds(1));
  backoff.stall(seconds(2));
  EXPECT_TRUE(backoff.is_stalled());
  backoff.reset();
  EXPECT_FALSE(backoff.is_stalled());
  EXPECT_EQ(backoff.next_deadline(), kNever);
  EXPECT_FALSE(backoff.stall(seconds(3)));
  EXPECT_EQ(backoff.next_deadline(), seconds(3) + millis(1));
}

}  // namespace
}  // namespace lyre::worker
