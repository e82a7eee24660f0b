#include "machine/boot_pages.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/machine/tree.h"

namespace lyre::machine {
namespace {

class BootPagesTest : public ::testing::Test {
 protected:
  std::optional<BootPages> look() {
    return pages_at_boot(
        tree_.roots(), {.sysctl = {tree_.path("etc/sysctl.d"), tree_.path("usr/sysctl.d")},
                        .tmpfiles = {tree_.path("etc/tmpfiles.d"), tree_.path("usr/tmpfiles.d")}});
  }
  /// The number, or 0 where nothing says one.
  uint64_t pages() {
    const auto found = look();
    return found ? found->pages : 0;
  }
  static std::string tmpfiles_line(int pages) {
    return std::string("w ") + "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages - - - - " +
           std::to_string(pages) + "\n";
  }

  Tree tree_;
};

TEST_F(BootPagesTest, OfSysctlTheLastFileByNameCounts) {
  EXPECT_FALSE(look().has_value());
  tree_.write("usr/sysctl.d/50-a.conf", "vm.nr_hugepages=1\n");
  EXPECT_EQ(pages(), 1u);
  tree_.write("etc/sysctl.d/60-b.conf", "vm.nr_hugepages=2\n  -vm/nr_hugepages = 3 \n");
  EXPECT_EQ(pages(), 3u);
  EXPECT_EQ(look()->file, tree_.path("etc/sysctl.d/60-b.conf"));
  tree_.write("usr/sysctl.d/70-c.conf", "vm.nr_hugepages = 4\n");
  EXPECT_EQ(pages(), 4u);
  tree_.write("etc/sysctl.d/70-c.conf", "");  // takes its place
  EXPECT_EQ(pages(), 3u);
}

TEST_F(BootPagesTest, OfSysctlCommentsAndOtherFilesAreNotRead) {
  tree_.write("etc/sysctl.d/60-b.conf",
              "#vm.nr_hugepages = 2\n; vm.nr_hugepages = 2\nvm.nr_hugepages_mempolicy = 2\n");
  tree_.write("etc/sysctl.d/60-b.conf.bak", "vm.nr_hugepages = 2\n");
  EXPECT_FALSE(look().has_value());
}

// systemd-tmpfiles: "Duplicate line for path, ignoring."
TEST_F(BootPagesTest, OfTmpfilesTheFirstLineCounts) {
  tree_.write("usr/tmpfiles.d/b.conf", tmpfiles_line(2));
  EXPECT_EQ(pages(), 2u);
  tree_.write("etc/tmpfiles.d/a.conf",
              "# " + tmpfiles_line(9) + tmpfiles_line(3) + tmpfiles_line(4));
  EXPECT_EQ(pages(), 3u);
  EXPECT_EQ(look()->file, tree_.path("etc/tmpfiles.d/a.conf"));
}

TEST_F(BootPagesTest, TheLastSourceCounts) {
  tree_.write("proc/cmdline", "quiet hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=0:5,1:6\n");
  EXPECT_EQ(pages(), 11u);
  EXPECT_EQ(look()->source, BootSource::kCommandLine);
  tree_.write("etc/sysctl.d/60-b.conf", "vm.nr_hugepages = 0\n");
  EXPECT_EQ(look()->source, BootSource::kSysctl);
  EXPECT_EQ(pages(), 0u);
  tree_.write("etc/tmpfiles.d/a.conf", tmpfiles_line(3));
  EXPECT_EQ(look()->source, BootSource::kTmpfiles);
}

TEST_F(BootPagesTest, WithAnotherDefaultSizeSysctlSetsOtherPages) {
  tree_.write("proc/meminfo", "Hugepagesize:    1048576 kB\n");
  tree_.write("etc/sysctl.d/60-b.conf", "vm.nr_hugepages = 4\n");
  EXPECT_FALSE(look().has_value());
}

}  // namespace
}  // namespace lyre::machine
