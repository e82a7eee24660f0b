#include "libclient/fifo.h"

#include <gtest/gtest.h>

namespace lyre::client {
namespace {

TEST(Fifo, KeepsOrderWhileItGrowsAndWraps) {
  Fifo<int> fifo;
  int pushed = 0;
  int popped = 0;
  for (int turn = 0; turn < 100; ++turn) {
    for (int i = 0; i < 7; ++i) fifo.push(pushed++);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(popped++, fifo.pop());
  }
  EXPECT_EQ(200u, fifo.size());
  while (!fifo.is_empty()) EXPECT_EQ(popped++, fifo.pop());
  EXPECT_EQ(pushed, popped);
}

TEST(Fifo, RemovesFromAnywhere) {
  Fifo<int> fifo;
  for (int i = 0; i < 40; ++i) fifo.push(i);
  for (int i = 0; i < 30; ++i) fifo.pop();
  for (int i = 40; i < 43; ++i) fifo.push(i);
  EXPECT_TRUE(fifo.remove(36));
  EXPECT_FALSE(fifo.remove(36));
  EXPECT_TRUE(fifo.remove(30));
  EXPECT_TRUE(fifo.remove(42));
  for (const int left : {31, 32, 33, 34, 35, 37, 38, 39, 40, 41}) EXPECT_EQ(left, fifo.pop());
  EXPECT_TRUE(fifo.is_empty());
  EXPECT_FALSE(fifo.remove(1));
}

TEST(Fifo, KeepsOrderWhereverItRemoves) {
  for (int count = 1; count <= 9; ++count) {
    for (int gone = 0; gone < count; ++gone) {
      Fifo<int> fifo;
      for (int i = 0; i < 12; ++i) fifo.push(-1);  // of 16 places: the ring wraps
      for (int i = 0; i < 12; ++i) fifo.pop();
      for (int i = 0; i < count; ++i) fifo.push(i);
      EXPECT_TRUE(fifo.remove(gone));
      for (int i = 0; i < count; ++i) {
        if (i == gone) continue;
        EXPECT_EQ(i, fifo.pop());
      }
      EXPECT_TRUE(fifo.is_empty());
    }
  }
}

struct Counted {
  int value;
  bool operator==(const Counted& other) const {
    ++comparisons;
    return value == other.value;
  }
  static inline int comparisons = 0;
};

// A peer resets its connections in the order it likes.
TEST(Fifo, RemovesTheNewestWithoutASearch) {
  constexpr int kItems = 1000;
  Fifo<Counted> fifo;
  for (int i = 0; i < kItems; ++i) fifo.push({i});
  Counted::comparisons = 0;
  for (int i = kItems - 1; i >= 0; --i) EXPECT_TRUE(fifo.remove({i}));
  EXPECT_LE(Counted::comparisons, 2 * kItems);
}

}  // namespace
}  // namespace lyre::client
