#include <gtest/gtest.h>

#include <vector>

#include "tools/lyre/allreduce/values.h"

namespace lyre::allreduce {
namespace {

constexpr size_t kElements = 10'007;
constexpr int kRanks = 8;
constexpr Summands kAll{.count = kRanks};
constexpr ValueKey kKey{.seed = 42, .iteration = 3, .bucket = 7};

// The order differs from the checker's, which sums integers.
std::vector<float> sum_backwards(const ValueKey& key) {
  std::vector<float> sum(kElements, 0.0F);
  std::vector<float> values(kElements);
  for (int rank = kRanks - 1; rank >= 0; --rank) {
    fill_values(key, rank, values);
    for (size_t i = 0; i < kElements; ++i) sum[i] += values[i];
  }
  return sum;
}

TEST(Values, TheFloatSumIsExactInAnyOrder) {
  EXPECT_FALSE(find_mismatch(kKey, kAll, sum_backwards(kKey)).has_value());
}

TEST(Values, OneWrongElementIsFound) {
  for (const size_t element : {size_t{0}, size_t{2047}, size_t{2048}, kElements - 1}) {
    std::vector<float> sum = sum_backwards(kKey);
    const float right = sum[element];
    sum[element] += 1.0F / 1024.0F;
    const auto mismatch = find_mismatch(kKey, kAll, sum);
    ASSERT_TRUE(mismatch.has_value());
    EXPECT_EQ(mismatch->element, element);
    EXPECT_EQ(mismatch->expected, right);
    EXPECT_EQ(mismatch->got, sum[element]);
  }
}

TEST(Values, NothingFromAnotherTimeOrPlacePasses) {
  const std::vector<float> sum = sum_backwards(kKey);
  EXPECT_TRUE(find_mismatch({.seed = 43, .iteration = 3, .bucket = 7}, kAll, sum).has_value());
  EXPECT_TRUE(find_mismatch({.seed = 42, .iteration = 4, .bucket = 7}, kAll, sum).has_value());
  EXPECT_TRUE(find_mismatch({.seed = 42, .iteration = 3, .bucket = 8}, kAll, sum).has_value());
  EXPECT_TRUE(find_mismatch(kKey, {.count = kRanks - 1}, sum).has_value());
}

TEST(Values, TheInputOfOneRankIsFound) {
  std::vector<float> values(kElements);
  fill_values(kKey, 5, values);
  EXPECT_FALSE(find_mismatch(kKey, {.first = 5}, values).has_value());
  EXPECT_TRUE(find_mismatch(kKey, {.first = 4}, values).has_value());
}

TEST(Values, RanksDiffer) {
  std::vector<float> a(kElements);
  std::vector<float> b(kElements);
  fill_values(kKey, 0, a);
  fill_values(kKey, 1, b);
  size_t equal = 0;
  for (size_t i = 0; i < kElements; ++i) equal += a[i] == b[i] ? 1 : 0;
  EXPECT_LT(equal, kElements / 100);
}

}  // namespace
}  // namespace lyre::allreduce
