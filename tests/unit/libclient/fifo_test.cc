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

}  // namespace
}  // namespace lyre::client
