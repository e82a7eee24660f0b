#include "nccl_adapter/transport/line_budget.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace lyre::nccl_adapter {
namespace {

constexpr uint32_t kLinesPerHour = 32;
constexpr int64_t kHourNs = 3600 * kNsPerSecond;

/// Of so many lines at one moment those that are not left out.
uint32_t count_lines(LineBudget* budget, uint32_t lines, int64_t now_ns) {
  uint32_t taken = 0;
  for (uint32_t i = 0; i < lines; ++i) taken += budget->take(now_ns) ? 1 : 0;
  return taken;
}

TEST(LineBudget, LeavesOutWhatIsTooMuchAtOnce) {
  LineBudget budget(kLinesPerHour);
  EXPECT_EQ(budget.take(5 * kHourNs), 0u);
  EXPECT_EQ(count_lines(&budget, 1000, 5 * kHourNs), kLinesPerHour - 1);
}

TEST(LineBudget, SaysWithTheNextLineHowManyWereLeftOut) {
  LineBudget budget(kLinesPerHour);
  count_lines(&budget, kLinesPerHour + 10, kHourNs);
  int64_t now_ns = kHourNs + kHourNs / kLinesPerHour;
  EXPECT_EQ(budget.take(now_ns), 10u);
  EXPECT_EQ(budget.take(now_ns), std::nullopt);
  now_ns += kHourNs / kLinesPerHour;
  EXPECT_EQ(budget.take(now_ns), 1u);
}

TEST(LineBudget, HasAllItsLinesAgainAfterAnHourAndNoMore) {
  LineBudget budget(kLinesPerHour);
  for (const int64_t hours : {1, 2, 100}) {
    EXPECT_EQ(count_lines(&budget, 1000, hours * kHourNs), kLinesPerHour) << hours;
  }
}

}  // namespace
}  // namespace lyre::nccl_adapter
