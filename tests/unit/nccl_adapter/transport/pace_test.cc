#include "nccl_adapter/transport/pace.h"

#include <gtest/gtest.h>

namespace lyre::nccl_adapter {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(Pace, IsKnownAfterAWholeSecondWhateverTheGaps) {
  Pace pace;
  pace.add(1000, 600 * kMs, 1000 * kMs);
  EXPECT_EQ(pace.bytes_per_s(1000 * kMs), 0u);
  pace.add(3000, 400 * kMs, 5000 * kMs);
  EXPECT_EQ(pace.bytes_per_s(5000 * kMs), 4000u);
  pace.add(1, 999 * kMs, 6000 * kMs);
  EXPECT_EQ(pace.bytes_per_s(6000 * kMs), 4000u);
}

TEST(Pace, OfLongAgoSaysNothing) {
  Pace pace;
  pace.add(5000, 1000 * kMs, 1000 * kMs);
  EXPECT_EQ(pace.bytes_per_s(10'999 * kMs), 5000u);
  EXPECT_EQ(pace.bytes_per_s(11'000 * kMs), 0u);
}

}  // namespace
}  // namespace lyre::nccl_adapter
