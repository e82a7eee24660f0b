#include "stack/worker/clients/client_memory.h"

#include <gtest/gtest.h>

#include <array>

namespace lyre::worker {
namespace {

constexpr uint32_t kUse = 1u << channel::kRegionIndexBits;

uint32_t name_of(uint32_t number, uint32_t use = 1) { return use * kUse + kContextsMax + number; }
uint32_t index_of(uint32_t number) { return kContextsMax + number; }

class ClientMemoryTest : public testing::Test {
 protected:
  const char* locate(uint32_t context, uint32_t region, uint64_t offset, uint32_t length) {
    channel::Submission entry{.op = channel::Op::kSend};
    entry.body.send = {.region = region, .bytes = length, .offset = offset};
    found.reset();
    return memory.locate(context, entry, found);
  }

  std::array<uint8_t, 1000> bytes{};
  ClientMemory memory;
  std::optional<BufRef> found;
};

TEST_F(ClientMemoryTest, AKSendOfRegionZeroPointsIntoTheArena) {
  memory.add_arena(3, bytes.data() + 100, 200);
  ASSERT_EQ(locate(3, 0, 50, 150), nullptr);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->region, 3u);
  EXPECT_EQ(memory.bytes_of(*found), bytes.data() + 150);
  EXPECT_NE(locate(3, 0, 50, 151), nullptr);
  EXPECT_NE(locate(3, 0, UINT64_MAX, 2), nullptr);
  memory.remove_arena(3);
  EXPECT_NE(locate(3, 0, 0, 1), nullptr);
}

TEST_F(ClientMemoryTest, OnlyItsClientMaySendFromARegion) {
  memory.add(name_of(0), 3, bytes.data(), 500);
  ASSERT_EQ(locate(3, name_of(0), 499, 1), nullptr);
  EXPECT_EQ(memory.bytes_of(*found), bytes.data() + 499);
  EXPECT_NE(locate(3, name_of(0), 499, 2), nullptr);
  EXPECT_NE(locate(4, name_of(0), 0, 1), nullptr);
  EXPECT_FALSE(found.has_value());
  EXPECT_NE(locate(3, 7, 0, 1), nullptr) << "an arena has no name";
}

TEST_F(ClientMemoryTest, ANameThatIsNoMoreBreaksNoRule) {
  memory.add(name_of(0), 3, bytes.data(), 500);
  memory.remove(index_of(0));
  EXPECT_TRUE(memory.is_free(index_of(0)));
  memory.add(name_of(0, 2), 4, bytes.data(), 500);
  EXPECT_EQ(locate(3, name_of(0), 0, 1), nullptr);
  EXPECT_FALSE(found.has_value());
}

TEST_F(ClientMemoryTest, NothingIsSentFromALeavingRegion) {
  memory.add(name_of(0), 3, bytes.data(), 500);
  EXPECT_FALSE(memory.try_begin_leaving(name_of(1)));
  EXPECT_FALSE(memory.try_begin_leaving(name_of(0, 2))) << "another use of the index";
  EXPECT_TRUE(memory.try_begin_leaving(name_of(0)));
  EXPECT_EQ(locate(3, name_of(0), 0, 1), nullptr);
  EXPECT_FALSE(found.has_value());
}

TEST_F(ClientMemoryTest, LeavingRegionsAreGivenInTurn) {
  for (uint32_t i = 0; i < 3; ++i) {
    memory.add(name_of(i), i, bytes.data(), 500);
    EXPECT_TRUE(memory.try_begin_leaving(name_of(i)));
  }
  EXPECT_EQ(memory.next_leaving().name, name_of(0));
  EXPECT_EQ(memory.next_leaving().name, name_of(1));
  memory.remove(index_of(2));
  EXPECT_EQ(memory.leaving_count(), 2u);
  EXPECT_EQ(memory.next_leaving().name, name_of(0));
  memory.remove(index_of(0));
  memory.remove(index_of(1));
  EXPECT_EQ(memory.leaving_count(), 0u);
}

TEST_F(ClientMemoryTest, AContextHasAListOfItsRegions) {
  for (uint32_t i = 0; i < 4; ++i) memory.add(name_of(i), i % 2, bytes.data(), 500);
  EXPECT_EQ(memory.first_of(1), index_of(1));
  memory.remove(index_of(1));
  EXPECT_EQ(memory.first_of(1), index_of(3));
  memory.remove(index_of(3));
  EXPECT_EQ(memory.first_of(1), ClientMemory::kNone);
  EXPECT_EQ(memory.first_of(0), index_of(0));
}

}  // namespace
}  // namespace lyre::worker
