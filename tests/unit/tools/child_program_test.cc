#include "tools/lyre/child_program.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace lyre::tools {
namespace {

TEST(ChildProgram, GivesOutputAndStatus) {
  std::string output;
  EXPECT_EQ(run_program({"sh", "-c", "echo out; echo err >&2; exit 3"}, output), 3);
  EXPECT_EQ(output, "out\nerr\n");
  EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}, output), 128 + 9);
  EXPECT_EQ(run_program({"lyre-no-such-program"}, output), std::nullopt);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(run_program({"lyre-no-such-program"}), std::nullopt);
  EXPECT_EQ(errno, ENOENT);
}

/// Sets PATH, until it ends.
class OtherPath {
 public:
  explicit OtherPath(const std::string& path) : before_(std::getenv("PATH")) {
    ::setenv("PATH", path.c_str(), 1);
  }
  ~OtherPath() { ::setenv("PATH", before_.c_str(), 1); }
  OtherPath(const OtherPath&) = delete;
  OtherPath& operator=(const OtherPath&) = delete;

 private:
  std::string before_;
};

// cron has no /usr/sbin, where driverctl lies: it was not installed, as `lyre nic` said.
TEST(ChildProgram, IsFoundWithoutTheFoldersOfRootInPath) {
  const OtherPath path("/nonexistent");
  std::string output;
  EXPECT_EQ(run_program({"ldconfig", "-V"}, output), 0) << output;
}

// As /root/.local/bin in the PATH of a container's user.
TEST(ChildProgram, IsAbsentAlsoWhereAFolderOfPathMayNotBeSearched) {
  char folder[] = "/tmp/lyre-child-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  ASSERT_EQ(::chmod(folder, 0), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr id_t kNobody = 65534;
    if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) ::_exit(2);
    const OtherPath path(folder);
    ::_exit(!run_program({"lyre-no-such-program"}) && errno == ENOENT ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::filesystem::remove_all(folder);
}

TEST(ChildProgram, ThatCannotBeExecutedIsNotAbsent) {
  char folder[] = "/tmp/lyre-child-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  std::ofstream(std::string(folder) + "/lyre-no-such-program") << "#!/bin/sh\n";
  {
    const OtherPath path(folder);
    std::string output;
    EXPECT_EQ(run_program({"lyre-no-such-program"}, output), std::nullopt);
    EXPECT_EQ(errno, EACCES);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lyre::tools
