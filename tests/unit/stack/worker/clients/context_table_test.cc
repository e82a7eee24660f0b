#include "stack/worker/clients/context_table.h"

#include <gtest/gtest.h>

#include <set>

#include "stack/base/rng.h"

namespace lyre::worker {
namespace {

TEST(ContextTable, OpensAContextAsNew) {
  ContextTable table(4);
  table.open(2).sends_under_way = 7;
  EXPECT_EQ(table[2].state, Context::State::kAttached);
  EXPECT_EQ(table.index_of(table[2]), 2u);
  table.close(2);
  EXPECT_EQ(table[2].state, Context::State::kFree);
  EXPECT_EQ(table.open(2).sends_under_way, 0u);
}

TEST(ContextTable, ListsThoseInUseOnce) {
  Rng rng(3);
  ContextTable table(16);
  std::set<uint32_t> expected;
  for (int step = 0; step < 2'000; ++step) {
    const auto index = static_cast<uint32_t>(rng.below(16));
    if (expected.erase(index) > 0) {
      table.close(index);
    } else {
      table.open(index);
      expected.insert(index);
    }
    const std::set<uint32_t> listed(table.in_use().begin(), table.in_use().end());
    ASSERT_EQ(listed, expected);
    ASSERT_EQ(table.in_use().size(), expected.size());
  }
}

TEST(ContextTableDeathTest, AnIndexIsOpenedOnce) {
  ContextTable table(2);
  table.open(1);
  EXPECT_DEATH(table.open(1), "kFree");
  EXPECT_DEATH(table.close(0), "kFree");
}

}  // namespace
}  // namespace lyre::worker
