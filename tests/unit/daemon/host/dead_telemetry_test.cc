#include "daemon/host/dead_telemetry.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>

#include "daemon/base/owned_fd.h"
#include "nccl_adapter/abi/telemetry.h"

namespace lyre {
namespace {

/// A directory as containers are given it.
class DeadTelemetry : public ::testing::Test {
 protected:
  static constexpr uid_t kDaemon = 65530;
  static constexpr uid_t kUser = 65531;
  static constexpr uid_t kOther = 65532;

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "may give files to no user";
    char name[] = "/tmp/lyre-dead-telemetry-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
    give_directory_to(kDaemon);
  }
  void TearDown() override {
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  void give_directory_to(uid_t owner) {
    ASSERT_EQ(::chown(directory_.c_str(), owner, kOther), 0);
    ASSERT_EQ(::chmod(directory_.c_str(), 01770), 0);
  }
  std::string path_of(const std::string& name) const { return directory_ + "/" + name; }
  /// The descriptor of a file as the plugin makes it.
  OwnedFd make(const std::string& name, uid_t owner, uint64_t bytes = nccl_abi::kTelemetryBytes) {
    OwnedFd file(::open(path_of(name).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    EXPECT_EQ(::fchmod(file.get(), 0644), 0);
    EXPECT_EQ(::fchown(file.get(), owner, owner), 0);
    EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
    return file;
  }
  bool is_there(const std::string& name) const {
    struct stat status = {};
    return ::lstat(path_of(name).c_str(), &status) == 0;
  }
  /// As the daemon's user, without root's capabilities. How many files are removed.
  int sweep() const {
    const pid_t child = ::fork();
    if (child == 0) {
      const bool is_daemon = ::setgroups(0, nullptr) == 0 &&
                             ::setresgid(kDaemon, kDaemon, kDaemon) == 0 &&
                             ::setresuid(kDaemon, kDaemon, kDaemon) == 0;
      ::_exit(is_daemon ? static_cast<int>(remove_dead_telemetry(directory_)) : 255);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string directory_;
};

// It stayed until a later process of that uid came, which may be never.
TEST_F(DeadTelemetry, OfAnotherUserIsRemoved) {
  make("lyre-comms-65531-4711-0000000000000001", kUser);
  make("lyre-comms-65532-4711-0000000000000001", kOther);
  const OwnedFd alive = make("lyre-comms-65531-4712-0000000000000002", kUser);
  ASSERT_EQ(::flock(alive.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(sweep(), 2);
  EXPECT_FALSE(is_there("lyre-comms-65531-4711-0000000000000001"));
  EXPECT_FALSE(is_there("lyre-comms-65532-4711-0000000000000001"));
  EXPECT_TRUE(is_there("lyre-comms-65531-4712-0000000000000002"));
  ASSERT_EQ(::flock(alive.get(), LOCK_UN), 0);
  EXPECT_EQ(sweep(), 1);
}

// What has no size yet may be locked by the plugin at any moment.
TEST_F(DeadTelemetry, WhatIsNotThePluginsStays) {
  make("lyre-comms-65531-1-0000000000000001", kUser, 0);
  make("lyre-comms-65531-2-0000000000000001", kUser, nccl_abi::kTelemetryBytes + 1);
  make("lyre-comms-65531-3-0000000000000001", kOther);
  make("notes", kUser);
  ASSERT_EQ(::mkfifo(path_of("lyre-comms-0-4-0000000000000001").c_str(), 0644), 0);
  ASSERT_EQ(::mkdir(path_of("lyre-comms-0-5-0000000000000001").c_str(), 0755), 0);
  ASSERT_EQ(::symlink("notes", path_of("lyre-comms-65531-6-0000000000000001").c_str()), 0);
  EXPECT_EQ(sweep(), 0);
  const std::filesystem::directory_iterator left(directory_);
  EXPECT_EQ(std::distance(begin(left), end(left)), 7);
}

// Its removal would free all of that, and could take long.
TEST_F(DeadTelemetry, WithMemoryBehindItsEndStays) {
  constexpr off_t kBehindBytes = off_t{8} << 20;
  constexpr auto kBytes = static_cast<off_t>(nccl_abi::kTelemetryBytes);
  const OwnedFd large = make("lyre-comms-65531-1-0000000000000001", kUser);
  const OwnedFd full = make("lyre-comms-65531-2-0000000000000001", kUser);
  if (::fallocate(large.get(), FALLOC_FL_KEEP_SIZE, 0, kBytes + kBehindBytes) != 0) {
    GTEST_SKIP() << "a file system without fallocate()";
  }
  ASSERT_EQ(::fallocate(full.get(), 0, 0, kBytes), 0);
  EXPECT_EQ(sweep(), 1);
  EXPECT_TRUE(is_there("lyre-comms-65531-1-0000000000000001"));
}

// Who may write above the directory could lead the daemon into another one of its own.
TEST_F(DeadTelemetry, BehindALinkIsNotLookedFor) {
  make("lyre-comms-65531-4711-0000000000000001", kUser);
  const std::string link = directory_ + "-link";
  ASSERT_EQ(::symlink(directory_.c_str(), link.c_str()), 0);
  EXPECT_EQ(remove_dead_telemetry(link), 0u);
  ::unlink(link.c_str());
  EXPECT_EQ(remove_dead_telemetry(directory_), 1u);
}

TEST_F(DeadTelemetry, WhereTheDirectoryIsOfAnotherUserNothingIsRemoved) {
  make("lyre-comms-65531-4711-0000000000000001", kUser);
  give_directory_to(kOther);
  EXPECT_EQ(sweep(), 0);
  EXPECT_TRUE(is_there("lyre-comms-65531-4711-0000000000000001"));
}

TEST_F(DeadTelemetry, ADirectoryThatIsNotThereHasNone) {
  EXPECT_EQ(remove_dead_telemetry(path_of("missing")), 0u);
}

}  // namespace
}  // namespace lyre
