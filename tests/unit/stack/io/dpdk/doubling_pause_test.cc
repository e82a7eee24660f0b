#include "stack/io/dpdk/doubling_pause.h"

#include <gtest/gtest.h>

namespace lyre::io::dpdk {
namespace {

TEST(DoublingPause, DoublesUpToTheLongest) {
  DoublingPause pause(seconds(10), seconds(60));
  EXPECT_FALSE(pause.is_longest());
  for (const int64_t expected : {10, 20, 40}) {
    EXPECT_EQ(pause.next(), seconds(expected));
    EXPECT_FALSE(pause.is_longest());
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(pause.next(), seconds(60));
    EXPECT_TRUE(pause.is_longest());
  }
}

TEST(DoublingPause, BeginsAnewAfterASuccess) {
  DoublingPause pause(seconds(1), seconds(60));
  for (int i = 0; i < 10; ++i) pause.next();
  pause.note_success();
  EXPECT_FALSE(pause.is_longest());
  EXPECT_EQ(pause.next(), seconds(1));
}

}  // namespace
}  // namespace lyre::io::dpdk
