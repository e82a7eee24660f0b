#include <gtest/gtest.h>

#include <cerrno>
#include <optional>

#include "tests/unit/tools/expect_finding.h"
#include "tools/lyre/doctor/daemon_checks.h"

// The configuration of a machine whose lyred cannot check it.
namespace lyre::tools {
namespace {

// Nothing told of it where lyred is not installed.
TEST(DoctorNamedConfig, HasToBeReadable) {
  const Finding missing = check_named_config("/nonexistent/lyred.toml").at(0);
  expect(missing, Verdict::kProblem,
         "/nonexistent/lyred.toml cannot be read: No such file or directory");
  EXPECT_TRUE(check_named_config("/proc/self/status").empty());
}

TEST(DoctorNamedConfig, ADaemonThatDoesNotStartIsNotAbsent) {
  expect(read_config_check(std::nullopt, "", EACCES).at(0), Verdict::kProblem,
         "lyred was not started: Permission denied");
  expect(read_config_check(std::nullopt, "").at(0), Verdict::kNote, "not installed");
}

}  // namespace
}  // namespace lyre::tools
