#include "daemon/host/telemetry_sweeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "daemon/host/dead_telemetry.h"
#include "nccl_adapter/abi/telemetry.h"
#include "tests/support/deadline.h"

namespace lyre {
namespace {

/// A sweeper of a directory with files of this user.
class TelemetrySweeperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lyre-telemetry-sweeper-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void start() {
    auto started = TelemetrySweeper::start(directory_, millis(1));
    ASSERT_TRUE(started.ok()) << started.error().text;
    sweeper_.emplace(std::move(*started));
  }
  std::string path_of(const std::string& number) const {
    return directory_ + "/" + nccl_abi::telemetry_prefix(::getuid()) + "4711-" + number;
  }
  OwnedFd make(const std::string& number) const {
    OwnedFd file(::open(path_of(number).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    EXPECT_EQ(::flock(file.get(), LOCK_EX | LOCK_NB), 0);
    EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(nccl_abi::kTelemetryBytes)), 0);
    return file;
  }
  void await_removal(const std::string& number) const {
    const test::Deadline deadline;
    while (std::filesystem::exists(path_of(number))) {
      ASSERT_FALSE(deadline.is_over()) << "no sweeper came for " << path_of(number);
      ::usleep(1000);
    }
  }
  /// The process has ended by itself.
  static void await_end(pid_t pid) {
    int status = -1;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }

  std::string directory_;
  std::optional<TelemetrySweeper> sweeper_;
};

TEST_F(TelemetrySweeperTest, RemovesFilesWithoutAProcessAndNoOthers) {
  const OwnedFd alive = make("0000000000000001");
  make("0000000000000002");
  start();
  await_removal("0000000000000002");
  make("0000000000000003");
  await_removal("0000000000000003");
  EXPECT_TRUE(std::filesystem::exists(path_of("0000000000000001")));
  const pid_t pid = sweeper_->pid();
  sweeper_.reset();
  await_end(pid);
}

TEST_F(TelemetrySweeperTest, LooksAtAllEntriesInTurn) {
  constexpr uint32_t kJunk = 3 * kTelemetryEntriesMax;
  constexpr uint32_t kEach = kTelemetryEntriesMax / 4;
  for (uint32_t i = 0; i <= kJunk; ++i) {
    if (i % kEach == 0) make("dead" + std::to_string(i));
    std::ofstream(path_of("junk" + std::to_string(i)));  // stays, because it has no size
  }
  start();
  for (uint32_t i = 0; i <= kJunk; i += kEach) await_removal("dead" + std::to_string(i));
  const pid_t pid = sweeper_->pid();
  sweeper_.reset();
  await_end(pid);
}

// While a client keeps it in the kernel, the daemon's devices and memory would stay in use.
TEST_F(TelemetrySweeperTest, HasNothingOfTheDaemon) {
  // Without FD_CLOEXEC, as some libraries open theirs.
  const OwnedFd device(::fcntl(STDIN_FILENO, F_DUPFD, 100));
  start();
  make("0000000000000001");
  await_removal("0000000000000001");
  const pid_t pid = sweeper_->pid();
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  ASSERT_EQ(::waitpid(pid, nullptr, WUNTRACED), pid);
  const std::filesystem::path process = "/proc/" + std::to_string(pid);
  std::set<std::string> open;
  for (const auto& entry : std::filesystem::directory_iterator(process / "fd")) {
    const std::string file = std::filesystem::read_symlink(entry.path()).string();
    // It may have been stopped in a sweep.
    if (!file.starts_with(directory_)) open.insert(entry.path().filename().string());
  }
  for (const char* number : {"0", "1", "2"}) {
    EXPECT_EQ(std::filesystem::read_symlink(process / "fd" / number), "/dev/null");
  }
  EXPECT_EQ(open, (std::set<std::string>{"0", "1", "2", "3"}));
  sweeper_.reset();
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  await_end(pid);
}

TEST_F(TelemetrySweeperTest, NobodyWaitsForOneThatIsKept) {
  start();
  const pid_t pid = sweeper_->pid();
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  ASSERT_EQ(::waitpid(pid, nullptr, WUNTRACED), pid);
  sweeper_.reset();
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), 0) << "it is kept";
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  await_end(pid);
}

}  // namespace
}  // namespace lyre
