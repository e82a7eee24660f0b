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
  int sweep(uint32_t times = 1) const {
    const pid_t child = ::fork();
    if (child == 0) {
      const bool is_daemon = ::setgroups(0, nullptr) == 0 &&
                             ::setresgid(kDaemon, kDaemon, kDaemon) == 0 &&
                             ::setresuid(kDaemon, kDaemon, kDaemon) == 0;
      DeadTelemetryRemover remover(directory_);
      uint32_t removed = 0;
      for (uint32_t i = 0; is_daemon && i < times; ++i) removed += remover.sweep();
      ::_exit(is_daemon ? static_cast<int>(removed) : 255);
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

// Root of a container in a user namespace has another uid on the host. Its files stayed for ever.
TEST_F(DeadTelemetry, OfAUserNamespaceIsRemoved) {
  make("lyre-comms-0-1-0000000000000001", kUser);
  const OwnedFd alive = make("lyre-comms-0-1-0000000000000002", kUser);
  ASSERT_EQ(::flock(alive.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(sweep(), 1);
  EXPECT_FALSE(is_there("lyre-comms-0-1-0000000000000001"));
  EXPECT_TRUE(is_there("lyre-comms-0-1-0000000000000002"));
}

// A client may link another's file into the directory where fs.protected_hardlinks is 0.
TEST_F(DeadTelemetry, OfAFileWithTwoLinksOnlyThatOneIsRemoved) {
  make("notes", kOther);
  ASSERT_EQ(::link(path_of("notes").c_str(), path_of("lyre-comms-0-1-1").c_str()), 0);
  EXPECT_EQ(sweep(), 1);
  EXPECT_TRUE(is_there("notes"));
}

// Each sweep began with the first entries, so files behind those of one client stayed for ever.
TEST_F(DeadTelemetry, AmongMoreEntriesThanASweepLooksAtIsRemoved) {
  constexpr uint32_t kDead = 16;
  constexpr uint32_t kJunkMax = 3 * kTelemetryEntriesMax;
  for (uint32_t i = 0; i <= kJunkMax; ++i) {
    if (i % (kJunkMax / (kDead - 1)) == 0) make("lyre-comms-65531-1-" + std::to_string(i), kUser);
    make("lyre-comms-65532-1-" + std::to_string(i), kOther, 0);
  }
  EXPECT_EQ(sweep(4), static_cast<int>(kDead));
}

TEST_F(DeadTelemetry, AfterTheLastEntryASweepBeginsAgain) {
  DeadTelemetryRemover remover(directory_);
  for (int i = 0; i < 2; ++i) {
    make("lyre-comms-65531-4711-0000000000000001", kUser);
    EXPECT_EQ(remover.sweep(), 1u);
  }
}

// They stayed for ever, also when the release that wrote them was replaced everywhere.
TEST_F(DeadTelemetry, OfAnotherReleaseIsRemoved) {
  const OwnedFd largest =
      make("lyre-comms-65531-1-0000000000000001", kUser, nccl_abi::kTelemetryBytesMax);
  make("lyre-comms-65531-2-0000000000000001", kUser, nccl_abi::kTelemetryBytes + 1);
  make("lyre-comms-65531-3-0000000000000001", kUser, nccl_abi::kTelemetrySlotsOffset);
  const OwnedFd alive =
      make("lyre-comms-65531-4-0000000000000001", kUser, nccl_abi::kTelemetryBytes + 1);
  ASSERT_EQ(::flock(alive.get(), LOCK_EX | LOCK_NB), 0);
  // All of its memory is there, where the file system knows fallocate().
  (void)!::fallocate(largest.get(), 0, 0, static_cast<off_t>(nccl_abi::kTelemetryBytesMax));
  EXPECT_EQ(sweep(), 3);
  EXPECT_TRUE(is_there("lyre-comms-65531-4-0000000000000001"));
}

// What has no size yet may be locked by the plugin at any moment.
TEST_F(DeadTelemetry, WhatIsNotThePluginsStays) {
  make("lyre-comms-65531-1-0000000000000001", kUser, 0);
  make("lyre-comms-65531-2-0000000000000001", kUser, nccl_abi::kTelemetryBytesMax + 1);
  make("lyre-comms-65531-7-0000000000000001", kUser, nccl_abi::kTelemetrySlotsOffset - 1);
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
  EXPECT_EQ(DeadTelemetryRemover(link).sweep(), 0u);
  ::unlink(link.c_str());
  EXPECT_EQ(DeadTelemetryRemover(directory_).sweep(), 1u);
}

TEST_F(DeadTelemetry, WhereTheDirectoryIsOfAnotherUserNothingIsRemoved) {
  make("lyre-comms-65531-4711-0000000000000001", kUser);
  give_directory_to(kOther);
  EXPECT_EQ(sweep(), 0);
  EXPECT_TRUE(is_there("lyre-comms-65531-4711-0000000000000001"));
}

TEST_F(DeadTelemetry, ADirectoryThatIsNotThereIsLookedForAgain) {
  DeadTelemetryRemover remover(path_of("later"));
  EXPECT_EQ(remover.sweep(), 0u);
  ASSERT_EQ(::mkdir(path_of("later").c_str(), 0700), 0);
  make("later/lyre-comms-65531-4711-0000000000000001", kUser);
  EXPECT_EQ(remover.sweep(), 1u);
}

}  // namespace
}  // namespace lyre
