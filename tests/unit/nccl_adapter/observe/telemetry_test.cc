#include "nccl_adapter/observe/telemetry.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <utility>

#include "nccl_adapter/observe/log.h"

namespace lyre::nccl_adapter {
namespace {

namespace fs = std::filesystem;

int g_lines = 0;
std::string g_line;

void keep_line(nccl_abi::LogLevel, unsigned long, const char*, int, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  ++g_lines;
  g_line = text;
}

bool has_said(const std::string& text) { return g_line.find(text) != std::string::npos; }

class TelemetryTest : public ::testing::Test {
 protected:
  TelemetryTest() {
    char name[] = "/tmp/lyre-telemetry-XXXXXX";
    directory_ = ::mkdtemp(name);
    g_lines = 0;
  }
  ~TelemetryTest() override { fs::remove_all(directory_); }

  /// Runs `check` in a process whose `directory_` is a tmpfs of so many bytes, as /dev/shm is one
  /// of 64 MiB in a container. SIGBUS ends it.
  void expect_in_tmpfs(size_t bytes, const std::function<void(const std::string&)>& check) {
    constexpr int kNoMount = 77;
    const pid_t child = ::fork();
    if (child == 0) {
      const std::string options = "size=" + std::to_string(bytes);
      if (::unshare(CLONE_NEWNS) != 0 ||
          ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount("tmpfs", directory_.c_str(), "tmpfs", 0, options.c_str()) != 0) {
        ::_exit(kNoMount);
      }
      set_logger(keep_line);
      check(directory_);
      ::_exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
    if (WEXITSTATUS(status) == kNoMount) GTEST_SKIP() << "may not mount";
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }

  std::string directory_;
};

bool is_empty(const std::string& directory) { return fs::is_empty(directory); }

/// Takes slots as comms do and writes them, until there are no more.
uint32_t fill(Telemetry& telemetry) {
  for (uint32_t count = 0;; ++count) {
    nccl_abi::CommSlot* slot = telemetry.take();
    if (slot == nullptr) return count;
    nccl_abi::write_slot(slot, nccl_abi::CommView{});
    slot->is_used.store(1);
  }
}

TEST_F(TelemetryTest, AFullFileSystemCostsTheProcessNothingButTelemetry) {
  expect_in_tmpfs(64 << 10, [](const std::string& directory) {
    std::ofstream(directory + "/other") << std::string(1 << 20, 'x');  // stops when it is full
    Telemetry telemetry(directory, "host", "socket", 1);
    EXPECT_EQ(telemetry.take(), nullptr);
    telemetry.touch(1);
    telemetry.count_foreign("10.0.0.1:1");
    EXPECT_EQ(g_lines, 1);
    EXPECT_TRUE(has_said("will not show this process")) << g_line;
    EXPECT_TRUE(has_said("No space left on device")) << g_line;
    EXPECT_EQ(std::distance(fs::directory_iterator(directory), {}), 1) << "left its file behind";
  });
}

TEST_F(TelemetryTest, ShowsAsManyCommsAsThereIsRoomFor) {
  expect_in_tmpfs(64 << 10, [](const std::string& directory) {
    {
      Telemetry telemetry(directory, "host", "socket", 1);
      const uint32_t shown = fill(telemetry);
      EXPECT_GT(shown, 0u);
      EXPECT_LT(shown, nccl_abi::kTelemetrySlots);
      EXPECT_EQ(telemetry.take(), nullptr);
      EXPECT_EQ(g_lines, 1) << "said more than once";
      EXPECT_TRUE(has_said("will show only " + std::to_string(shown) + " connections")) << g_line;
      telemetry.touch(1);
    }
    EXPECT_TRUE(is_empty(directory));
  });
}

TEST_F(TelemetryTest, AnIdleProcessTakesLittleOfASmallFileSystem) {
  Telemetry telemetry(directory_, "host", "socket", 1);
  telemetry.take();
  struct stat status {};
  ASSERT_EQ(::stat(fs::directory_iterator(directory_)->path().c_str(), &status), 0);
  EXPECT_EQ(static_cast<size_t>(status.st_size), nccl_abi::kTelemetryBytes);
  EXPECT_LE(status.st_blocks * 512, 64 << 10);
}

void read_header(const std::string& directory, nccl_abi::TelemetryHeader* out) {
  std::ifstream(fs::directory_iterator(directory)->path(), std::ios::binary)
      .read(reinterpret_cast<char*>(out), sizeof *out);
}

uint32_t not_shown(const std::string& directory) {
  nccl_abi::TelemetryHeader header{};
  read_header(directory, &header);
  return header.comms_not_shown.load();
}

TEST_F(TelemetryTest, EverySlotIsGivenWhereThereIsRoomAndTheOtherCommsAreCounted) {
  Telemetry telemetry(directory_, "host", "socket", 1);
  set_logger(keep_line);
  EXPECT_EQ(fill(telemetry), nccl_abi::kTelemetrySlots);
  EXPECT_EQ(telemetry.take(), nullptr);
  set_logger(nullptr);
  EXPECT_EQ(g_lines, 1) << "said more than once";
  EXPECT_TRUE(has_said("will show only 2048 connections")) << g_line;
  EXPECT_EQ(not_shown(directory_), 2u);
  telemetry.give_back(nullptr);
  EXPECT_EQ(not_shown(directory_), 1u);
}

TEST_F(TelemetryTest, TellsWhoMayReadItAndWhereItsSlotsAre) {
  const Telemetry telemetry(directory_, "host", "socket", 1);
  nccl_abi::TelemetryHeader header{};
  read_header(directory_, &header);
  EXPECT_EQ(header.magic, nccl_abi::kTelemetryMagic);
  EXPECT_EQ(header.version, nccl_abi::kTelemetryVersion);
  EXPECT_EQ(header.version_min_reader, nccl_abi::kTelemetryVersionMinReader);
  EXPECT_TRUE(nccl_abi::is_telemetry_size(nccl_abi::kTelemetryBytes));
  EXPECT_TRUE(nccl_abi::is_telemetry_known(header));
  EXPECT_TRUE(nccl_abi::are_telemetry_slots_within(header, nccl_abi::kTelemetryBytes));
  EXPECT_FALSE(nccl_abi::are_telemetry_slots_within(header, nccl_abi::kTelemetryBytes - 1));
}

std::string shown_verbs(const std::string& directory) {
  nccl_abi::TelemetryHeader header{};
  read_header(directory, &header);
  return header.verbs;
}

TEST_F(TelemetryTest, ShowsWhatIsKnownOfRdmaPortsAndCutsIt) {
  Telemetry telemetry(directory_, "host", "socket", 1);
  EXPECT_EQ(shown_verbs(directory_), "");
  telemetry.show_verbs("rxe0: the port is not active");
  EXPECT_EQ(shown_verbs(directory_), "rxe0: the port is not active");
  telemetry.show_verbs(std::string(1000, 'x'));
  EXPECT_EQ(shown_verbs(directory_),
            std::string(sizeof(nccl_abi::TelemetryHeader::verbs) - 1, 'x'));
}

size_t files_in(const std::string& directory) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(directory), {}));
}

TEST_F(TelemetryTest, TwoOfOneProcessHaveAFileEachAlsoWithTheSameNumber) {
  auto first = std::make_unique<Telemetry>(directory_, "host", "socket", 1);
  const Telemetry second(directory_, "host", "socket", 1);
  EXPECT_EQ(files_in(directory_), 2u);
  first.reset();
  EXPECT_EQ(files_in(directory_), 1u);
}

TEST_F(TelemetryTest, AFileThatAnEndedProcessLeftIsRemoved) {
  const pid_t child = ::fork();
  if (child == 0) {
    const Telemetry telemetry(directory_, "host", "socket", 1);
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(files_in(directory_), 1u);
  const Telemetry telemetry(directory_, "host", "socket", 1);
  EXPECT_EQ(files_in(directory_), 1u);
}

// The child kept the lock of the file by its descriptor and by its mapping, and `lyre comms` showed
// the comms of the dead process.
TEST_F(TelemetryTest, AFileOfADeadProcessWhoseForkedChildLivesIsRemoved) {
  int begun[2] = {-1, -1};
  ASSERT_EQ(::pipe(begun), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    const Telemetry telemetry(directory_, "host", "socket", 1);
    if (::fork() != 0) ::_exit(::close(begun[1]));
    (void)!::write(begun[1], "", 1);
    ::alarm(120);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  EXPECT_EQ(::read(begun[0], &byte, 1), 1);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(files_in(directory_), 1u);
  const Telemetry telemetry(directory_, "host", "socket", 2);
  EXPECT_EQ(files_in(directory_), 1u);
  ::kill(-child, SIGKILL);
  for (const int fd : begun) ::close(fd);
}

// The number of its descriptor may be another file of the child by then.
TEST_F(TelemetryTest, ACopyInAForkedChildLeavesTheFileToItsParent) {
  auto telemetry = std::make_unique<Telemetry>(directory_, "host", "socket", 1);
  const pid_t child = ::fork();
  if (child == 0) {
    telemetry.reset();
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(files_in(directory_), 1u);
  telemetry->touch(1);
  telemetry.reset();
  EXPECT_EQ(files_in(directory_), 0u);
}

/// A process that is process 1 of a PID namespace, as the first one of a container is, and has
/// telemetry until end().
class ContainedProcess {
 public:
  explicit ContainedProcess(const std::string& directory) {
    EXPECT_EQ(::pipe(begun_), 0);
    EXPECT_EQ(::pipe(ends_), 0);
    child_ = ::fork();
    if (child_ == 0) run(directory);
    ::close(begun_[1]);
    char byte = 0;
    has_begun_ = ::read(begun_[0], &byte, 1) == 1;
  }
  ~ContainedProcess() { end(); }
  ContainedProcess(const ContainedProcess&) = delete;
  ContainedProcess& operator=(const ContainedProcess&) = delete;

  /// False: this process may make no namespace.
  bool has_begun() const { return has_begun_; }
  void end() {
    if (child_ == 0) return;
    const char byte = 0;
    EXPECT_EQ(::write(ends_[1], &byte, 1), 1);
    ::waitpid(std::exchange(child_, 0), nullptr, 0);
    for (const int fd : {begun_[0], ends_[0], ends_[1]}) ::close(fd);
  }

 private:
  [[noreturn]] void run(const std::string& directory) {
    if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) ::_exit(1);
    const pid_t first = ::fork();
    if (first == 0) {
      const Telemetry telemetry(directory, "host", "socket", 1);
      char byte = 0;
      if (::getpid() == 1 && ::write(begun_[1], &byte, 1) == 1) (void)!::read(ends_[0], &byte, 1);
    } else {
      ::close(begun_[1]);
      ::waitpid(first, nullptr, 0);
    }
    ::_exit(0);
  }

  int begun_[2] = {-1, -1};  ///< a byte comes when there is telemetry
  int ends_[2] = {-1, -1};   ///< a byte goes when it shall end
  pid_t child_ = 0;
  bool has_begun_ = false;
};

TEST_F(TelemetryTest, ContainersWithOneDirectoryLeaveEachOthersFilesAlone) {
  ContainedProcess first(directory_);
  if (!first.has_begun()) GTEST_SKIP() << "may make no PID namespace";
  ContainedProcess second(directory_);
  ASSERT_TRUE(second.has_begun());
  EXPECT_EQ(files_in(directory_), 2u);
  first.end();
  EXPECT_EQ(files_in(directory_), 1u);
}

// Making the file would be SIGXFSZ.
TEST_F(TelemetryTest, ALimitOnFilesCostsTheProcessNothingButTelemetry) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    set_logger(keep_line);
    Telemetry telemetry(directory_, "host", "socket", 1);
    ::_exit(telemetry.take() == nullptr && has_said("File too large") ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(is_empty(directory_));
}

}  // namespace
}  // namespace lyre::nccl_adapter
