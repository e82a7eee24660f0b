#include "stack/io/dpdk/function_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lyre::io::dpdk {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr Nanos kBegin = seconds(1000);

// A port ran through the host at a fraction of the bandwidth, and nothing said so.
TEST(FunctionWatch, APortWithoutItsFunctionIsNamed) {
  FunctionWatch watch;
  watch.note(true, false, kBegin);
  EXPECT_EQ(watch.warning(), "");
  EXPECT_TRUE(watch.with_path({}).empty());
  watch.note(false, false, kBegin + seconds(1));
  EXPECT_THAT(watch.warning(), EndsWith("its virtual function is not in use"));
  const auto counters = watch.with_path({{.name = "a", .value = 7}});
  ASSERT_EQ(counters.size(), 2u);
  EXPECT_EQ(counters[1].name, "on_host_path");
  EXPECT_EQ(counters[1].value, 1u);
  watch.note(true, false, kBegin + seconds(2));
  EXPECT_EQ(watch.warning(), "");
}

TEST(FunctionWatch, AFunctionThatDpdkDoesNotOpenNeedsARestart) {
  FunctionWatch watch;
  const Nanos last = kBegin + FunctionWatch::kUsedWithin;
  watch.note(false, true, kBegin);
  watch.note(false, true, last - millis(1));
  EXPECT_THAT(watch.warning(), EndsWith("is not in use"));
  watch.note(false, true, last);
  EXPECT_THAT(watch.warning(), HasSubstr("restart the daemon"));
  watch.note(true, false, last);
  EXPECT_EQ(watch.warning(), "");
}

TEST(FunctionWatch, AFunctionThatIsTakenAwayAgainHasItsTimeAnew) {
  FunctionWatch watch;
  watch.note(false, true, kBegin);
  watch.note(false, false, kBegin + seconds(50));
  watch.note(false, true, kBegin + seconds(70));
  EXPECT_THAT(watch.warning(), EndsWith("is not in use"));
  watch.note(false, true, kBegin + seconds(70) + FunctionWatch::kUsedWithin);
  EXPECT_THAT(watch.warning(), HasSubstr("restart the daemon"));
}

TEST(FunctionWatch, APortWithoutMacHasNoFunction) {
  FunctionWatch watch;
  watch.look(DeviceArgs::parse("vmbus:1"), 0, kBegin);
  EXPECT_EQ(watch.warning(), "");
  watch.look(DeviceArgs::parse("vmbus:1,mac=00:0d:3a:ff:ff:ff"), 0, kBegin);
  EXPECT_THAT(watch.warning(), EndsWith("is not in use")) << "DPDK has no port";
}

}  // namespace
}  // namespace lyre::io::dpdk
