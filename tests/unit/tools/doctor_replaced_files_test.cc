#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/machine/tree.h"
#include "tests/unit/tools/expect_finding.h"
#include "tools/lyre/doctor/replaced_files.h"

namespace lyre::tools {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class DoctorReplacedFiles : public ::testing::Test {
 protected:
  void add_process(const std::string& name, const std::string& maps) {
    tree_.write("proc/42/comm", name + "\n");
    tree_.write("proc/42/maps", maps);
  }
  std::vector<Finding> look() const { return check_replaced_files(tree_.roots(), 42); }

  machine::Tree tree_;
};

constexpr const char* kUnchanged =
    "55d0c0000000-55d0c0001000 r-xp 00000000 fe:01 7    /usr/bin/lyred\n"
    "7f0000000000-7f0001200000 r-xs 00000000 00:0f 8    /memfd:lyre-rx (deleted)\n"
    "7f0002000000-7f0002200000 rwxs 00000000 00:10 9    /dev/hugepages/x (deleted)\n"
    "7f0003000000-7f0003001000 r--p 00000000 fe:01 10   /usr/lib/gconv.cache (deleted)\n"
    "7f0004000000-7f0004001000 r-xp 00000000 00:00 0 \n"
    "7f0005000000-7f0005001000 r-xp 00000000 00:00 0    [vdso]\n";

TEST_F(DoctorReplacedFiles, AreNoneWhereTheCodeIsThatOfTheDisk) {
  EXPECT_THAT(look(), IsEmpty());
  add_process("lyred", kUnchanged);
  EXPECT_THAT(look(), IsEmpty());
}

TEST_F(DoctorReplacedFiles, AreNamedWithTheCommandThatTakesTheNewOnes) {
  const std::string crypto =
      "7f0006000000-7f0006001000 r-xp 00000000 fe:01 11   /usr/lib/libcrypto.so.3 (deleted)\n";
  add_process("lyred", kUnchanged + crypto + crypto);
  ASSERT_THAT(look(), SizeIs(1));
  expect(look()[0], Verdict::kNote, "lyred, pid 42, runs the old /usr/lib/libcrypto.so.3");
  EXPECT_EQ(look()[0].saw, "lyred, pid 42, runs the old /usr/lib/libcrypto.so.3");
  EXPECT_THAT(look()[0].mend, StartsWith("systemctl reload lyred "));
  tree_.write("proc/42/cgroup", "0::/system.slice/system-lyred.slice/lyred@team-a.service\n");
  EXPECT_THAT(look()[0].mend, StartsWith("systemctl reload lyred@team-a "));
  add_process("lyred", kUnchanged + crypto +
                           "7f0007000000-7f0007001000 r-xp 00000000 fe:01 12   "
                           "/usr/lib/librte_eal.so.23 (deleted)\n");
  EXPECT_EQ(look()[0].saw,
            "lyred, pid 42, runs the old /usr/lib/libcrypto.so.3 and 1 more of the files that were "
            "replaced");
}

TEST_F(DoctorReplacedFiles, OfAnotherProcessAreNotLyreds) {
  add_process("bash", "7f0-7f1 r-xp 00000000 fe:01 11   /usr/lib/libc.so.6 (deleted)\n");
  EXPECT_THAT(look(), IsEmpty());
}

}  // namespace
}  // namespace lyre::tools
