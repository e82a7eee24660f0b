#include "stack/worker/clients/copy_blocks.h"

#include <gtest/gtest.h>

namespace lyre::worker {
namespace {

TEST(CopyBlocks, AreAsManyAsTheAreaHolds) {
  EXPECT_EQ(CopyBlocks().count(), 0u);
  EXPECT_EQ(CopyBlocks(kCopyBlockBytes - 1).count(), 0u);
  EXPECT_EQ(CopyBlocks(3 * kCopyBlockBytes + 5).count(), 3u);
  EXPECT_EQ(CopyBlocks(uint64_t{1} << 62).count(), kCopyBlocksMax);
}

TEST(CopyBlocks, AreGivenAndTakenBack) {
  CopyBlocks blocks(2 * kCopyBlockBytes);
  const auto first = blocks.find_free();
  ASSERT_TRUE(first.has_value());
  blocks.give(*first, {.session = 7, .generation = 3, .charge_bytes = 100});
  const auto second = blocks.find_free();
  ASSERT_TRUE(second.has_value());
  EXPECT_NE(*first, *second);
  blocks.give(*second, {.session = 8});
  EXPECT_FALSE(blocks.find_free().has_value());
  const auto held = blocks.take_back(*first);
  ASSERT_TRUE(held.has_value());
  EXPECT_EQ(held->session, 7u);
  EXPECT_EQ(held->charge_bytes, 100u);
  EXPECT_EQ(blocks.find_free(), first);
}

TEST(CopyBlocks, ASessionMayHaveAsManyAsAreFreeAndNoneOfTheReserve) {
  CopyBlocks blocks(16 * kCopyBlockBytes);
  uint32_t given = 0;
  for (; blocks.may_give(given); ++given) blocks.give(*blocks.find_free(), {.session = 1});
  EXPECT_EQ(given, 7u);
  EXPECT_TRUE(blocks.take_back(0).has_value());
  EXPECT_TRUE(blocks.may_give(given - 1));
  while (blocks.may_give(0)) blocks.give(*blocks.find_free(), {.session = 2});
  EXPECT_FALSE(blocks.find_free().has_value());
}

TEST(CopyBlocks, WhatTheClientDoesNotHaveItCannotGiveBack) {
  CopyBlocks blocks(2 * kCopyBlockBytes);
  EXPECT_FALSE(blocks.take_back(0).has_value());
  EXPECT_FALSE(blocks.take_back(2).has_value());
  EXPECT_FALSE(blocks.take_back(UINT32_MAX).has_value());
  blocks.give(1, {});
  EXPECT_TRUE(blocks.take_back(1).has_value());
  EXPECT_FALSE(blocks.take_back(1).has_value());
}

}  // namespace
}  // namespace lyre::worker
