#include "daemon/upgrade/new_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

namespace lyre {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// What a shell started in this way writes to its end of the socket pair.
std::string said_by(const std::string& script) {
  auto process = NewProcess::start("/bin/sh", {"-c", script + " >&3"});
  EXPECT_TRUE(process.ok());
  const OwnedFd socket = process->take_socket();
  std::string out;
  char part[4096];
  for (ssize_t count; (count = ::recv(socket.get(), part, sizeof part, 0)) > 0;) {
    out.append(part, static_cast<size_t>(count));
  }
  EXPECT_EQ(process->await_end(seconds(5)).text, "ended with status 0");
  return out;
}

// With the host's process numbers the first process of a container has any number: the engine ended
// the container, and the new process with it.
TEST(NewProcess, DoesNotReplaceTheFirstOneOfAContainer) {
  EXPECT_TRUE(check_may_be_replaced(4711, nullptr).ok());
  EXPECT_TRUE(check_may_be_replaced(4711, "").ok());
  EXPECT_TRUE(check_may_be_replaced(4711, "471").ok());
  EXPECT_EQ(check_may_be_replaced(4711, "4711").error().code, ENOTSUP);
  EXPECT_EQ(check_may_be_replaced(1, nullptr).error().code, ENOTSUP);
}

TEST(NewProcess, HasItsSocketAndNoOtherDescriptor) {
  // Without FD_CLOEXEC, as some libraries open theirs; above those that a shell has of its own.
  const OwnedFd leaked(::fcntl(STDIN_FILENO, F_DUPFD, 100));
  const std::string descriptors = said_by("ls /proc/$$/fd | tr '\\n' ' '");
  EXPECT_THAT(descriptors, HasSubstr("3 "));
  EXPECT_THAT(descriptors, Not(HasSubstr(" " + std::to_string(leaked.get()) + " ")));
}

TEST(NewProcess, IsWatchedInPlaceOfThisOne) {
  ASSERT_EQ(::setenv("WATCHDOG_PID", "17", 1), 0);
  ASSERT_EQ(::setenv("WATCHDOG_USEC", "1000", 1), 0);
  EXPECT_EQ(said_by("echo ${WATCHDOG_PID-none} $WATCHDOG_USEC"), "none 1000\n");
  ::unsetenv("WATCHDOG_PID");
  ::unsetenv("WATCHDOG_USEC");
}

TEST(NewProcess, TellsHowItEnded) {
  auto status = NewProcess::start("/bin/sh", {"-c", "exit 7"});
  ASSERT_TRUE(status.ok());
  const ProcessEnd exited = status->await_end(seconds(5));
  EXPECT_EQ(exited.text, "ended with status 7");
  EXPECT_TRUE(exited.has_exited);
  auto signal = NewProcess::start("/bin/sh", {"-c", "kill -SEGV $$"});
  ASSERT_TRUE(signal.ok());
  const ProcessEnd crashed = signal->await_end(seconds(5));
  EXPECT_EQ(crashed.text, "was ended by signal 11");
  EXPECT_FALSE(crashed.has_exited);
  auto hanging = NewProcess::start("/bin/sleep", {"60"});
  ASSERT_TRUE(hanging.ok());
  const ProcessEnd killed = hanging->await_end(millis(20));
  EXPECT_EQ(killed.text, "did not end and was killed");
  EXPECT_FALSE(killed.has_exited);
}

TEST(NewProcess, AProgramThatIsNotThereIsNamed) {
  const auto process = NewProcess::start("/nonexistent/lyred", {});
  ASSERT_FALSE(process.ok());
  EXPECT_EQ(process.error().code, ENOENT);
  EXPECT_THAT(process.error().text, HasSubstr("/nonexistent/lyred"));
}

}  // namespace
}  // namespace lyre
