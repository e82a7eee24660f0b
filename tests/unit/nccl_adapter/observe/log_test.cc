#include "nccl_adapter/observe/log.h"

#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <thread>
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

/// As NCCL's logger does.
void print_line(LogLevel, unsigned long, const char*, int, const char* format, ...) {
  std::puts(format);
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

struct Death {
  bool has_exited = false;  ///< not by a signal
  int status = -1;
  std::string printed;  ///< to stdout
};

/// Calls `before` and die() in a child. An alarm ends one that stands still.
Death die_after(void (*before)()) {
  std::array<int, 2> pipe{};
  EXPECT_EQ(::pipe(pipe.data()), 0);
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    ::dup2(pipe[1], STDOUT_FILENO);
    before();
    die("%s", "it is over");
  }
  ::close(pipe[1]);
  Death death;
  char byte = 0;
  while (::read(pipe[0], &byte, 1) == 1) death.printed += byte;
  ::close(pipe[0]);
  int end = 0;
  EXPECT_EQ(::waitpid(child, &end, 0), child);
  death.has_exited = WIFEXITED(end);
  death.status = WEXITSTATUS(end);
  return death;
}

void await_locked(FILE* file) {
  while (::ftrylockfile(file) == 0) {
    ::funlockfile(file);
    ::usleep(1000);
  }
}

TEST(Die, WritesWhatTheProgramHasPrinted) {
  const Death death = die_after([] { std::printf("step 7"); });
  EXPECT_TRUE(death.has_exited);
  EXPECT_EQ(death.status, 1);
  EXPECT_EQ(death.printed, "step 7");
}

TEST(Die, DoesNotWaitForAThreadThatReadsStdin) {
  const Death death = die_after([] {
    static std::array<int, 2> input{};
    if (::pipe(input.data()) != 0) return;  // nobody writes, and it stays open
    ::dup2(input[0], STDIN_FILENO);
    std::thread([] {
      char line[16];
      static_cast<void>(std::fgets(line, sizeof line, stdin) == nullptr);
    }).detach();
    await_locked(stdin);
  });
  EXPECT_TRUE(death.has_exited) << "it stood still";
  EXPECT_EQ(death.status, 1);
}

TEST(Die, DoesNotWaitForAThreadThatHasLockedStdout) {
  const Death death = die_after([] {
    set_logger(print_line);
    std::thread([] {
      ::flockfile(stdout);
      ::pause();
    }).detach();
    await_locked(stdout);
  });
  EXPECT_TRUE(death.has_exited) << "it stood still";
  EXPECT_EQ(death.status, 1);
}

}  // namespace
}  // namespace lyre::nccl_adapter
