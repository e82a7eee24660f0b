#include "stack/base/bounded_vector.h"

#include <gtest/gtest.h>

namespace lyre {
namespace {

TEST(BoundedVector, TakesExactlyItsCapacity) {
  BoundedVector<int, 3> items;
  EXPECT_TRUE(items.empty());
  EXPECT_TRUE(items.try_push(1));
  EXPECT_TRUE(items.try_push(2));
  EXPECT_EQ(items.room(), 1u);
  EXPECT_TRUE(items.try_push(3));
  EXPECT_TRUE(items.full());
  EXPECT_FALSE(items.try_push(4));
  EXPECT_EQ(items.size(), 3u);
  EXPECT_EQ(items.back(), 3);
}

TEST(BoundedVector, IteratesOverWhatItHolds) {
  BoundedVector<int, 8> items;
  for (int i = 0; i < 5; ++i) items.push(i);
  items.pop_back();
  int sum = 0;
  for (int item : items) sum += item;
  EXPECT_EQ(sum, 0 + 1 + 2 + 3);
  items.clear();
  EXPECT_EQ(items.begin(), items.end());
}

TEST(BoundedVectorDeathTest, PushingIntoAFullOneEndsTheProcess) {
  BoundedVector<int, 1> items;
  items.push(1);
  EXPECT_DEATH(items.push(2), "count_ < N");
}

}  // namespace
}  // namespace lyre
