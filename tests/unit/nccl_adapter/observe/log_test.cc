#include "nccl_adapter/observe/log.h"

#include <gtest/gtest.h>

#include <cstdarg>
#include <cstdio>
#include <string>
#include <vector>

namespace lyre::nccl_adapter {
namespace {

using nccl_abi::LogLevel;

struct LoggedLine {
  LogLevel level;
  std::string text;
};
std::vector<LoggedLine> g_logged;

void keep_logged(LogLevel level, unsigned long, const char*, int, const char* format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  g_logged.push_back({level, text});
}

class LogTest : public ::testing::Test {
 protected:
  LogTest() { g_logged.clear(); }
  ~LogTest() override { set_logger(nullptr); }
};

TEST_F(LogTest, LinesGoToTheLoggerWithTheirLevelAndAPrefix) {
  set_logger(keep_logged);
  log_info("streams: %d", 4);
  log_warn("no daemon at %s", "/run/lyre");
  ASSERT_EQ(g_logged.size(), 2u);
  EXPECT_EQ(g_logged[0].level, LogLevel::kInfo);
  EXPECT_EQ(g_logged[0].text, "NET/Lyre : streams: 4");
  EXPECT_EQ(g_logged[1].level, LogLevel::kWarn);
  EXPECT_EQ(g_logged[1].text, "NET/Lyre : no daemon at /run/lyre");
}

// A host name or a path may hold one; it must not become a conversion of NCCL's logger.
TEST_F(LogTest, APercentSignInAnArgumentStaysOne) {
  set_logger(keep_logged);
  log_warn("%s", "100%s");
  EXPECT_EQ(g_logged.at(0).text, "NET/Lyre : 100%s");
}

TEST_F(LogTest, ALongLineIsCut) {
  set_logger(keep_logged);
  log_warn("%s", std::string(5000, 'x').c_str());
  EXPECT_LT(g_logged.at(0).text.size(), 2000u);
}

TEST_F(LogTest, WithoutALoggerWarningsGoToStderr) {
  ::testing::internal::CaptureStderr();
  log_info("not shown");
  log_warn("shown");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "NET/Lyre : shown\n");
}

}  // namespace
}  // namespace lyre::nccl_adapter
