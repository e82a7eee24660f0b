#include "stack/io/dpdk/function_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lyre::io::dpdk {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr Nanos kBegin = seconds(1000);
constexpr Nanos kTold = kBegin + FunctionWatch::kToldAfter;

// A port ran through the host at a fraction of the bandwidth, and nothing said so.
TEST(FunctionWatch, APortWithoutItsFunctionIsNamed) {
  FunctionWatch watch;
  watch.note(FunctionState::kUsed, kBegin - seconds(1));
  EXPECT_EQ(watch.warning(""), "");
  EXPECT_TRUE(watch.with_path({}).empty());
  watch.note(FunctionState::kAway, kBegin);
  const auto counters = watch.with_path({{.name = "a", .value = 7}});
  ASSERT_EQ(counters.size(), 2u);
  EXPECT_EQ(counters[1].name, "on_host_path");
  EXPECT_EQ(counters[1].value, 1u);
  watch.note(FunctionState::kAway, kTold);
  EXPECT_THAT(watch.warning(""), EndsWith("its virtual function is not in use"));
  watch.note(FunctionState::kUsed, kTold + seconds(1));
  EXPECT_EQ(watch.warning(""), "");
  EXPECT_TRUE(watch.with_path({}).empty());
}

// Each start of a port was told as a loss of its function.
TEST(FunctionWatch, AMomentOnTheHostsPathIsOnlyCounted) {
  FunctionWatch watch;
  for (int i = 0; i < 3; ++i) {
    const Nanos begin = kBegin + seconds(10 * i);
    watch.note(FunctionState::kUnused, begin);
    watch.note(FunctionState::kAway, begin + FunctionWatch::kToldAfter - millis(1));
    EXPECT_EQ(watch.warning(""), "");
    EXPECT_EQ(watch.with_path({}).size(), 1u);
    watch.note(FunctionState::kUsed, begin + FunctionWatch::kToldAfter);
  }
}

TEST(FunctionWatch, AFunctionThatDpdkDoesNotOpenAgainNeedsARestart) {
  FunctionWatch watch;
  watch.note(FunctionState::kUsed, kBegin - seconds(1));
  const Nanos last = kBegin + FunctionWatch::kUsedWithin;
  watch.note(FunctionState::kUnused, kBegin);
  watch.note(FunctionState::kUnused, last - millis(1));
  EXPECT_THAT(watch.warning(""), EndsWith("is not in use"));
  watch.note(FunctionState::kUnused, last);
  EXPECT_THAT(watch.warning(""), HasSubstr("restart the daemon"));
  watch.note(FunctionState::kUsed, last);
  EXPECT_EQ(watch.warning(""), "");
}

TEST(FunctionWatch, AFunctionThatIsTakenAwayAgainHasItsTimeAnew) {
  FunctionWatch watch;
  watch.note(FunctionState::kUnused, kBegin);
  watch.note(FunctionState::kAway, kBegin + seconds(50));
  watch.note(FunctionState::kUnused, kBegin + seconds(70));
  EXPECT_THAT(watch.warning(""), EndsWith("is not in use"));
  watch.note(FunctionState::kUnused, kBegin + seconds(70) + FunctionWatch::kUsedWithin);
  EXPECT_THAT(watch.warning(""), HasSubstr("restart the daemon"));
}

// A restart was asked for, which changes nothing.
TEST(FunctionWatch, AFunctionThatDpdkDidNotOpenAtItsStartIsToldWithItsError) {
  FunctionWatch watch;
  watch.note(FunctionState::kUnused, kBegin);
  watch.note(FunctionState::kUnused, kBegin + FunctionWatch::kUsedWithin);
  EXPECT_THAT(watch.warning(""), EndsWith("is not in use: DPDK did not open it when it started"));
  EXPECT_THAT(watch.warning("mlx5_net: no memory"),
              EndsWith("when it started, and said first: mlx5_net: no memory"));
}

// Such a port was refused, which works, slowly. A restart does not help it.
TEST(FunctionWatch, AFunctionWithoutADriverIsNamedWithWhatHasOne) {
  FunctionWatch watch;
  watch.note(FunctionState::kWithoutDriver, kBegin);
  watch.note(FunctionState::kWithoutDriver, kBegin + FunctionWatch::kUsedWithin);
  EXPECT_THAT(watch.warning(""), HasSubstr("is not in use: it is a MANA function, and DPDK "));
  EXPECT_THAT(watch.warning(""), EndsWith("allowed: lyred of Debian 13, or its image"));
}

TEST(FunctionWatch, APortWithoutMacHasNoFunction) {
  FunctionWatch watch;
  watch.look(DeviceArgs::parse("vmbus:1"), 0, kBegin);
  EXPECT_TRUE(watch.with_path({}).empty());
  watch.look(DeviceArgs::parse("vmbus:1,mac=00:0d:3a:ff:ff:ff"), 0, kBegin);
  EXPECT_EQ(watch.with_path({}).size(), 1u) << "DPDK has no port";
}

}  // namespace
}  // namespace lyre::io::dpdk
