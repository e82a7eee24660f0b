#include "libclient/arena.h"

#include <gtest/gtest.h>

#include <map>

#include "stack/base/rng.h"

namespace lyre::client {
namespace {

constexpr uint64_t kMiB = 1u << 20;

TEST(Arena, RoundsUpToAPowerOfTwoOfPages) {
  Arena arena(kMiB);
  EXPECT_EQ(4096u, arena.block_bytes(arena.alloc(1)));
  EXPECT_EQ(4096u, arena.block_bytes(arena.alloc(4096)));
  EXPECT_EQ(8192u, arena.block_bytes(arena.alloc(4097)));
  EXPECT_EQ(kMiB - 16384, arena.free_bytes());
}

TEST(Arena, RefusesNothingAndTooMuch) {
  Arena arena(16 * kMiB);
  EXPECT_EQ(Arena::kNone, arena.alloc(0));
  EXPECT_EQ(Arena::kNone, arena.alloc(Arena::kBlockBytesMax + 1));
  EXPECT_NE(Arena::kNone, arena.alloc(Arena::kBlockBytesMax));
  EXPECT_EQ(Arena::kNone, Arena(0).alloc(1));
}

TEST(Arena, FullOfSmallBlocksItMergesToLargeOnesAgain) {
  Arena arena(4 * kMiB);
  std::vector<uint64_t> blocks;
  for (uint64_t block; (block = arena.alloc(4096)) != Arena::kNone;) blocks.push_back(block);
  EXPECT_EQ(1024u, blocks.size());
  EXPECT_EQ(0u, arena.free_bytes());
  for (const uint64_t block : blocks) EXPECT_TRUE(arena.free(block));
  EXPECT_NE(Arena::kNone, arena.alloc(4 * kMiB));
}

TEST(Arena, UsesTheWholeOfAnOddSize) {
  Arena arena(5 * 4096 + 100);
  EXPECT_EQ(5u * 4096, arena.free_bytes());
  EXPECT_NE(Arena::kNone, arena.alloc(4 * 4096));
  EXPECT_NE(Arena::kNone, arena.alloc(4096));
  EXPECT_EQ(Arena::kNone, arena.alloc(1));
}

TEST(Arena, KnowsItsLargestBlock) {
  for (const uint64_t bytes : {uint64_t{4096}, 3 * kMiB, 4 * kMiB - 4096, 5 * kMiB}) {
    Arena arena(bytes);
    const uint64_t largest = arena.largest_block_bytes();
    EXPECT_EQ(Arena::kNone, Arena(bytes).alloc(largest + 1)) << bytes;
    EXPECT_EQ(largest, arena.block_bytes(arena.alloc(largest))) << bytes;
    EXPECT_EQ(bytes, arena.bytes());
  }
  EXPECT_EQ(0u, Arena(0).largest_block_bytes());
}

TEST(Arena, KnowsTheBlockForSoManyBytes) {
  Arena arena(kMiB);
  for (const uint64_t bytes : {1, 4096, 4097, 70'000}) {
    EXPECT_EQ(Arena::block_bytes_for(bytes), arena.block_bytes(arena.alloc(bytes)));
  }
}

TEST(Arena, KnowsWhatIsNotABlock) {
  Arena arena(kMiB);
  const uint64_t block = arena.alloc(16384);
  EXPECT_FALSE(arena.free(block + 1));
  EXPECT_FALSE(arena.free(block + 4096));
  EXPECT_FALSE(arena.free(kMiB));
  EXPECT_FALSE(arena.free(Arena::kNone));
  EXPECT_TRUE(arena.free(block));
  EXPECT_FALSE(arena.free(block));
}

TEST(Arena, BlocksNeverOverlap) {
  Rng rng(8123);
  Arena arena(8 * kMiB + 3 * 4096);
  std::map<uint64_t, uint64_t> held;  // offset to size
  for (int turn = 0; turn < 20'000; ++turn) {
    if (rng.below(2) == 0 && !held.empty()) {
      auto victim = std::next(held.begin(), static_cast<long>(rng.below(held.size())));
      ASSERT_TRUE(arena.free(victim->first));
      held.erase(victim);
      continue;
    }
    const uint64_t offset = arena.alloc(1 + rng.below(uint64_t{1} << (12 + rng.below(9))));
    if (offset == Arena::kNone) continue;
    const uint64_t bytes = arena.block_bytes(offset);
    ASSERT_LE(offset + bytes, 8 * kMiB + 3 * 4096);
    const auto next = held.lower_bound(offset);
    if (next != held.end()) {
      ASSERT_LE(offset + bytes, next->first);
    }
    if (next != held.begin()) {
      const auto before = std::prev(next);
      ASSERT_LE(before->first + before->second, offset);
    }
    held[offset] = bytes;
  }
  for (const auto& [offset, bytes] : held) ASSERT_TRUE(arena.free(offset));
  EXPECT_EQ(8 * kMiB + 3 * 4096, arena.free_bytes());
  EXPECT_NE(Arena::kNone, arena.alloc(4 * kMiB));
  EXPECT_NE(Arena::kNone, arena.alloc(4 * kMiB));
}

}  // namespace
}  // namespace lyre::client
