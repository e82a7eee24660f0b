#include "stack/base/slab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "stack/base/rng.h"

namespace lyre {
namespace {

struct Item {
  int value = 41;
};

TEST(Slab, GivesItsCapacityThenNone) {
  Slab<Item> slab(3);
  std::set<uint32_t> taken;
  for (int i = 0; i < 3; ++i) taken.insert(slab.take());
  EXPECT_EQ(taken.size(), 3u);
  EXPECT_EQ(slab.take(), Slab<Item>::kNone);
  EXPECT_EQ(slab.room(), 0u);
}

TEST(Slab, AnItemIsFreshEachTimeItIsTaken) {
  Slab<Item> slab(1);
  const uint32_t index = slab.take();
  EXPECT_EQ(slab[index].value, 41);
  slab[index].value = 7;
  slab.give_back(index);
  EXPECT_FALSE(slab.is_taken(index));
  EXPECT_EQ(slab[slab.take()].value, 41);
}

TEST(Slab, TakesItemsAtTheirPlaces) {
  Slab<Item> slab(5);
  slab.take_at(1);
  slab.take_at(3);
  EXPECT_EQ(slab.used(), 2u);
  std::set<uint32_t> others;
  for (int i = 0; i < 3; ++i) others.insert(slab.take());
  EXPECT_EQ(others, (std::set<uint32_t>{0, 2, 4}));
  EXPECT_EQ(slab.take(), Slab<Item>::kNone);
}

TEST(Slab, RandomUseNeverGivesAnItemTwice) {
  Slab<Item> slab(50);
  Rng rng(4);
  std::vector<uint32_t> held;
  for (int i = 0; i < 5000; ++i) {
    if (rng.below(2) == 0 || held.empty()) {
      const uint32_t index = slab.take();
      if (index == Slab<Item>::kNone) {
        EXPECT_EQ(held.size(), 50u);
        continue;
      }
      EXPECT_EQ(std::count(held.begin(), held.end(), index), 0);
      held.push_back(index);
    } else {
      std::swap(held[rng.below(held.size())], held.back());
      slab.give_back(held.back());
      held.pop_back();
    }
    ASSERT_EQ(slab.used(), held.size());
  }
}

TEST(Slab, ACopyIsEqualAndGoesItsOwnWay) {
  Slab<Item> slab(4);
  const uint32_t first = slab.take();
  const uint32_t second = slab.take();
  slab[second].value = 9;
  slab.give_back(first);
  Slab<Item> copy(4);
  copy.take();
  copy.copy_from(slab);
  EXPECT_EQ(copy.used(), 1u);
  EXPECT_TRUE(copy.is_taken(second));
  EXPECT_FALSE(copy.is_taken(first));
  EXPECT_EQ(copy[second].value, 9);
  EXPECT_EQ(copy.take(), slab.take());
  copy[second].value = 10;
  EXPECT_EQ(slab[second].value, 9);
}

TEST(SlabDeathTest, GivingBackTwiceEndsTheProcess) {
  Slab<Item> slab(2);
  const uint32_t index = slab.take();
  slab.give_back(index);
  EXPECT_DEATH(slab.give_back(index), "is_taken");
}

}  // namespace
}  // namespace lyre
