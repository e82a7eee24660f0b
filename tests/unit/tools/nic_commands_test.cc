#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "tests/unit/machine/tree.h"
#include "tools/lyre/child_program.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/nic/run_commands.h"

namespace lyre::tools {
namespace {

constexpr const char* kSection = "\n[[port]]\naddress = \"10.0.1.5/24\"\n";

/// A driverctl that does something else than to bind.
class NicCommandsTest : public ::testing::Test {
 protected:
  void play_driverctl(const std::string& script) {
    tree_.write("bin/driverctl", "#!/bin/sh\n" + script);
    std::filesystem::permissions(tree_.path("bin/driverctl"), std::filesystem::perms::owner_all);
  }
  /// To run in a process of its own.
  void bind() {
    const std::string path = tree_.path("bin").string() + ":" + std::getenv("PATH");
    ::setenv("PATH", path.c_str(), 1);
    const UninterruptedSteps whole;
    take_from_kernel({"driverctl", "set-override", "0000:00:05.0", "vfio-pci"}, kSection);
    std::cerr << "prepares the service" << std::endl;
    ::_exit(0);
  }

  /// To run in a process of its own: the output has no reader.
  void bind_without_reader() {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(1);
    ::close(ends[0]);
    ::dup2(ends[1], STDERR_FILENO);
    std::signal(SIGPIPE, SIG_DFL);
    const UninterruptedSteps whole;
    take_from_kernel({"true"}, kSection);
    run_commands({{"touch", tree_.path("made")}}, false);
    ::_exit(0);
  }

  machine::Tree tree_;
};

// The kernel has forgotten the addresses.
TEST_F(NicCommandsTest, TheSectionIsPrintedBeforeTheNicIsTaken) {
  play_driverctl("kill -KILL $PPID\n");
  EXPECT_EXIT(bind(), ::testing::KilledBySignal(SIGKILL), "address = .10.0.1.5/24");
}

TEST_F(NicCommandsTest, CtrlCAndAHangUpEndNoBindInTheMiddle) {
  play_driverctl("for signal in INT HUP TERM; do kill -$signal $PPID; kill -$signal $$; done\n");
  EXPECT_EXIT(bind(), ::testing::ExitedWithCode(0), "prepares the service");
}

// It ended after the NIC was taken, and before the service was prepared.
TEST_F(NicCommandsTest, AReaderThatHasEndedEndsNoBindInTheMiddle) {
  EXPECT_EXIT(bind_without_reader(), ::testing::ExitedWithCode(0), "");
  EXPECT_TRUE(std::filesystem::exists(tree_.path("made")));
}

TEST_F(NicCommandsTest, SigpipeEndsWhatTheyStart) {
  const UninterruptedSteps whole;
  EXPECT_EQ(run_program({"sh", "-c", "kill -PIPE $$"}), 128 + SIGPIPE);
}

TEST_F(NicCommandsTest, SignalsActAgainAfterwards) {
  const auto before = std::signal(SIGHUP, SIG_DFL);
  {
    const UninterruptedSteps whole;
    std::raise(SIGHUP);
  }
  EXPECT_EQ(std::signal(SIGHUP, before), SIG_DFL);
}

// It was called not installed.
TEST_F(NicCommandsTest, AProgramThatIsThereAndDoesNotStartIsNamedWithTheReason) {
  tree_.write("bin/driverctl", "#!/bin/sh\n");
  const std::string program = tree_.path("bin/driverctl").string();
  try {
    run_command({program}, false);
    FAIL() << "it has no permission to be executed";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.what(), program + " was not started: Permission denied");
  }
}

TEST_F(NicCommandsTest, AProgramThatFailsEndsTheSteps) {
  EXPECT_THROW(run_commands({{"false"}, {"touch", tree_.path("made")}}, false), Failure);
  EXPECT_FALSE(std::filesystem::exists(tree_.path("made")));
}

}  // namespace
}  // namespace lyre::tools
