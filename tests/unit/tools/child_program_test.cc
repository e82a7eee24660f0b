#include "tools/lyre/child_program.h"

#include <gtest/gtest.h>

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
}

}  // namespace
}  // namespace lyre::tools
