#include "nccl_adapter/transport/pace.h"

#include <gtest/gtest.h>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(Pace, IsKnownAfterAWholePeriodWhateverTheGaps) {
  Pace pace;
  pace.add(200, kSlowBusyNs - 50 * kMs, 1000 * kMs);
  EXPECT_EQ(pace.bytes_per_s(1000 * kMs), 0u);
  pace.add(600, 50 * kMs, 5000 * kMs);
  EXPECT_EQ(pace.bytes_per_s(5000 * kMs), 4000u);
  pace.add(1, kSlowBusyNs - 1, 6000 * kMs);
  EXPECT_EQ(pace.bytes_per_s(6000 * kMs), 4000u);
}

TEST(Pace, OfLongAgoSaysNothing) {
  Pace pace;
  pace.add(1000, kSlowBusyNs, 1000 * kMs);
  EXPECT_EQ(pace.bytes_per_s(1000 * kMs + kSlowFreshNs - 1), 5000u);
  EXPECT_EQ(pace.bytes_per_s(1000 * kMs + kSlowFreshNs), 0u);
}

}  // namespace
}  // namespace lyre::nccl_adapter
