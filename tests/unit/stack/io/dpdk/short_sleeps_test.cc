#include "stack/io/dpdk/short_sleeps.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <optional>

namespace lyre::io::dpdk {
namespace {

TEST(ShortSleeps, EndsASleepOfAnHour) {
  const ShortSleeps short_sleeps;
  const timespec hour{.tv_sec = 3600, .tv_nsec = 0};
  EXPECT_EQ(::nanosleep(&hour, nullptr), -1);
  EXPECT_EQ(errno, EINTR);
}

TEST(ShortSleeps, LeavesNoSignalBehind) {
  struct sigaction before {};
  struct sigaction after {};
  ::sigaction(SIGURG, nullptr, &before);
  std::optional<ShortSleeps> short_sleeps;
  short_sleeps.emplace();
  short_sleeps.reset();
  ::sigaction(SIGURG, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
  const timespec some{.tv_sec = 0, .tv_nsec = 30'000'000};
  EXPECT_EQ(::nanosleep(&some, nullptr), 0);
}

}  // namespace
}  // namespace lyre::io::dpdk
