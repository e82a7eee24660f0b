#include "stack/base/index_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "stack/base/rng.h"

namespace lyre {
namespace {

struct LinkedItem {
  IndexLink red;
  IndexLink blue;
};
using Reds = IndexList<LinkedItem, &LinkedItem::red>;
using Blues = IndexList<LinkedItem, &LinkedItem::blue>;

template <typename List>
std::vector<uint32_t> all(const List& list, const std::vector<LinkedItem>& items) {
  std::vector<uint32_t> order;
  for (uint32_t i = list.front(); i != List::kNone; i = List::next(items, i)) order.push_back(i);
  return order;
}

TEST(IndexList, KeepsTheOrderOfBothEnds) {
  std::vector<LinkedItem> items(4);
  Reds reds;
  EXPECT_TRUE(reds.empty());
  reds.push_back(items, 2);
  reds.push_back(items, 0);
  reds.push_front(items, 3);
  EXPECT_EQ(all(reds, items), (std::vector<uint32_t>{3, 2, 0}));
  EXPECT_EQ(reds.front(), 3u);
  EXPECT_EQ(reds.back(), 0u);
  EXPECT_FALSE(items[1].red.is_linked());
}

TEST(IndexList, AnElementIsInOneListForEachLink) {
  std::vector<LinkedItem> items(3);
  Reds reds;
  Blues blues;
  for (uint32_t i = 0; i < 3; ++i) {
    reds.push_back(items, i);
    blues.push_front(items, i);
  }
  reds.remove(items, 1);
  EXPECT_EQ(all(reds, items), (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(all(blues, items), (std::vector<uint32_t>{2, 1, 0}));
}

TEST(IndexListDeathTest, TwiceInAListIsABrokenInvariant) {
  std::vector<LinkedItem> items(2);
  Reds reds;
  reds.push_back(items, 1);
  EXPECT_DEATH(reds.push_back(items, 1), "is_linked");
  EXPECT_DEATH(reds.remove(items, 0), "is_linked");
}

TEST(IndexList, AgreesWithAVectorOverRandomRuns) {
  Rng rng(5);
  std::vector<LinkedItem> items(16);
  std::vector<uint32_t> expected;
  Reds reds;
  for (int step = 0; step < 20'000; ++step) {
    const auto index = static_cast<uint32_t>(rng.below(items.size()));
    const auto at = std::find(expected.begin(), expected.end(), index);
    ASSERT_EQ(items[index].red.is_linked(), at != expected.end());
    if (at != expected.end()) {
      reds.remove(items, index);
      expected.erase(at);
    } else if (rng.below(2) == 0) {
      reds.push_back(items, index);
      expected.push_back(index);
    } else {
      reds.push_front(items, index);
      expected.insert(expected.begin(), index);
    }
    ASSERT_EQ(all(reds, items), expected);
    ASSERT_EQ(reds.size(), expected.size());
    ASSERT_EQ(reds.back(), expected.empty() ? Reds::kNone : expected.back());
  }
}

}  // namespace
}  // namespace lyre
