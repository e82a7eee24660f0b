#include "tools/nccl_emulator/plugin_log.h"

#include <gtest/gtest.h>

#include "tools/nccl_emulator/failure.h"

namespace lyre::nccl_emulator {
namespace {

using nccl_abi::LogLevel;
using nccl_abi::Result;

void log(LogLevel level, const std::string& text) {
  plugin_logger()(level, nccl_abi::kLogNet, "file", 1, "%s", text.c_str());
}

TEST(PluginLog, KeepsLevelAndText) {
  log(LogLevel::kWarn, "first");
  log(LogLevel::kInfo, "second");
  const std::vector<LogLine> lines = logged_lines();
  ASSERT_GE(lines.size(), 2u);
  EXPECT_EQ(lines.back().level, LogLevel::kInfo);
  EXPECT_EQ(lines.back().text, "second");
  EXPECT_EQ(last_warning(), "first");
}

TEST(PluginLog, CutsLongLinesAndDropsTheOldest) {
  log(LogLevel::kWarn, std::string(2 * kLogLineBytesMax, 'x'));
  EXPECT_EQ(logged_lines().back().text, std::string(kLogLineBytesMax, 'x'));
  for (size_t i = 0; i < kLogLinesMax; ++i) log(LogLevel::kInfo, std::to_string(i));
  const std::vector<LogLine> lines = logged_lines();
  EXPECT_EQ(lines.size(), kLogLinesMax);
  EXPECT_EQ(lines.front().text, "0");
  EXPECT_EQ(last_warning(), "");
}

TEST(PluginLog, IsEchoedToStderrWhileEnabled) {
  ::testing::internal::CaptureStderr();
  set_log_echo(true);
  log(LogLevel::kInfo, "shown");
  set_log_echo(false);
  log(LogLevel::kInfo, "hidden");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "shown\n");
}

TEST(PluginLog, FailureHasTheResultAndTheLastWarning) {
  EXPECT_NO_THROW(require_success(Result::kSuccess, "connect"));
  log(LogLevel::kWarn, "the peer is gone");
  try {
    require_success(Result::kRemoteError, "connect");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "connect: ncclRemoteError: the peer is gone");
  }
}

}  // namespace
}  // namespace lyre::nccl_emulator
