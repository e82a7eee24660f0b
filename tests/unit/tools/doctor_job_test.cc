#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "libclient/include/lyre/lyre.h"
#include "tests/unit/machine/tree.h"
#include "tests/unit/tools/expect_finding.h"
#include "tools/lyre/doctor/job.h"
#include "tools/lyre/doctor/job_checks.h"
#include "tools/lyre/doctor/nccl_checks.h"
#include "tools/lyre/doctor/plugin_file.h"
#include "tools/lyre/failure.h"

namespace lyre::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(DoctorNccl, SettingsOfTheProcessComeBeforeThoseOfFiles) {
  machine::Tree tree;
  tree.write("nccl.conf", "# of the site\nNCCL_NET=Socket\nNCCL_NET_PLUGIN=lyre\nOTHER=1\n");
  const char* const environment[] = {"NCCL_NET=Lyre", "PATH=/bin", nullptr};
  const Settings settings = nccl_settings(environment, {"/nonexistent", tree.path("nccl.conf")});
  EXPECT_EQ(settings, (Settings{{"NCCL_NET", "Lyre"}, {"NCCL_NET_PLUGIN", "lyre"}}));
}

TEST(DoctorNccl, NcclsFilesAreThoseThatNcclReads) {
  EXPECT_THAT(nccl_files({"A=1"}, "/home/a"), ElementsAre("/home/a/.nccl.conf", "/etc/nccl.conf"));
  EXPECT_THAT(nccl_files({"NCCL_CONF_FILE="}, "/r"),
              ElementsAre("/r/.nccl.conf", "/etc/nccl.conf"));
  EXPECT_THAT(nccl_files({"NCCL_CONF_FILE=/a.conf"}, "/r"),
              ElementsAre("/a.conf", "/etc/nccl.conf"));
}

/// A file that says of itself what a plugin of this release does.
std::string text_of(const client::ClientMark& mark) {
  return "ELF" + std::string(reinterpret_cast<const char*>(&mark), sizeof mark) + "rest";
}

TEST(DoctorNccl, WouldThePluginLoad) {
  machine::Tree tree;
  tree.write("libnccl-net-lyre.so", text_of(client::own_mark()));
  tree.write("libnccl-net-other.so", "ELF");
  const FindLibrary find = [&tree](const std::string& name) -> FoundLibrary {
    if (machine::exists(tree.path(name))) return {"/lib/" + name, tree.path(name), ""};
    return {"", "", name + ": not found"};
  };
  auto findings = check_nccl({}, find, "2.36");
  ASSERT_EQ(findings.size(), 3u);
  expect(findings[0], Verdict::kNote, "NCCL_NET_PLUGIN is not set");
  expect(findings[1], Verdict::kNote, "NCCL_NET is not set");
  expect(findings[2], Verdict::kFine, "2.36");
  for (const char* plugin : {"lyre", "other,lyre", "libnccl-net-lyre.so"}) {
    findings = check_nccl({{"NCCL_NET_PLUGIN", plugin}, {"NCCL_NET", "lyre"}}, find, "2.27");
    ASSERT_EQ(findings.size(), 5u) << plugin;
    expect(findings[0], Verdict::kFine, ": /lib/libnccl-net-lyre.so");
    expect(findings[1], Verdict::kFine, std::string("release ") + lyre_version());
    expect(findings[2], Verdict::kNote, "NCCL_NET_PLUGIN_REF_COUNT is not set");
    expect(findings[3], Verdict::kFine, "NCCL_NET=lyre");
    expect(findings[4], Verdict::kProblem, "2.27");
  }
  findings = check_nccl({{"NCCL_NET_PLUGIN", "none"}, {"NCCL_NET", "Socket"}}, find, "2.28");
  expect(findings[0], Verdict::kProblem, "libnccl-net-none.so: not found");
  expect(findings[1], Verdict::kProblem, "NCCL_NET=Socket");
  expect(check_nccl({{"NCCL_NET_PLUGIN", "other"}}, find, "2.28").at(0), Verdict::kNote,
         "is no plugin of Lyre, or an old one");
  findings = check_nccl({{"LYRE_SOKET", "/a"}}, find, "2.28");
  expect(findings.back(), Verdict::kProblem, "is LYRE_SOCKET meant?");
}

TEST(DoctorNccl, APluginOfAnotherReleaseSpeaksWithTheDaemonOrNot) {
  client::ClientMark mark = client::own_mark();
  std::strcpy(mark.release, "0.0.9");
  expect(check_plugin_release("/p", mark), Verdict::kFine, "/p: release 0.0.9, control protocol");
  mark.abi = {1, 2};
  const Finding older = check_plugin_release("/p", mark);
  expect(older, Verdict::kProblem, "channel 1 to 2; the daemon of release");
  EXPECT_THAT(older.mend, StartsWith("in the job's image"));
  mark.abi = {200, 201};
  EXPECT_THAT(check_plugin_release("/p", mark).mend, StartsWith("on this host"));
}

TEST(DoctorNccl, AFileThatEndsInItsMarkHasNone) {
  machine::Tree tree;
  const std::string whole = text_of(client::own_mark());
  tree.write("whole", whole);
  EXPECT_STREQ(mark_in(tree.path("whole"))->release, lyre_version());
  tree.write("cut", whole.substr(0, 3 + sizeof(client::ClientMark) - 1));
  EXPECT_FALSE(mark_in(tree.path("cut")).has_value());
  EXPECT_FALSE(mark_in("/nonexistent").has_value());
}

TEST(DoctorNccl, OnlyRegularFilesAreRead) {
  machine::Tree tree;
  const std::string fifo = tree.path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0666), 0);
  for (const std::string& path : {fifo, std::string("/dev/zero"), std::string("/")}) {
    EXPECT_FALSE(mark_in(path).has_value()) << path;
    EXPECT_TRUE(nccl_settings({"A=1"}, {path}).empty()) << path;
  }
}

TEST(DoctorNccl, OpensALibraryAsNcclDoes) {
  EXPECT_THAT(open_plugin("libc.so.6").wrong, HasSubstr("has no ncclNetPlugin_v8"));
  EXPECT_THAT(open_plugin("/nonexistent/plugin.so").wrong, HasSubstr("cannot open"));
}

/// A job in a container: its root has another /etc and other libraries than this machine.
class DoctorJobTest : public ::testing::Test {
 protected:
  DoctorJobTest() {
    tree_.write("proc/47/comm", "python3\n");
    tree_.write("proc/47/status",
                "Name:\tpython3\nUid:\t7 1000 7 7\nGid:\t8 100 8 8\nGroups:\t4 \n");
    set_environment({"NCCL_NET=Lyre"});
    in_root("etc/passwd", "root:x:0:0::/root:/bin/sh\njob:x:1000:100::/home/job:/bin/sh\n");
    in_root("usr/lib/x/libc.so.6", "GNU C Library (A 2.31-1) stable release version 2.31.\n");
    in_root("etc/ld.so.cache", std::string("ld.so\0libc.so.6\0/lib/x/libc.so.6\0z", 33));
    std::filesystem::create_symlink("/usr/lib", tree_.path("proc/47/root/lib"));
  }
  void in_root(const std::string& path, const std::string& text) {
    tree_.write("proc/47/root/" + path, text);
  }
  void set_environment(const std::vector<std::string>& entries) {
    std::string text;
    for (const std::string& entry : entries) text += entry + '\0';
    tree_.write("proc/47/environ", text);
  }
  Job job() const { return job_of(47, tree_.roots().proc); }
  Finding named(const std::string& check) const {
    for (const Finding& finding : check_job(job())) {
      if (finding.check == check) return finding;
    }
    return {};
  }

  machine::Tree tree_;
};

TEST_F(DoctorJobTest, AProcessAsTheKernelShowsIt) {
  const Job seen = job();
  EXPECT_EQ(seen.program, "python3");
  EXPECT_EQ(seen.uid, 1000u);
  EXPECT_THAT(seen.gids, ElementsAre(4, 100));
  EXPECT_EQ(home_of(seen), "/home/job");
  EXPECT_THROW(job_of(48, tree_.roots().proc), Failure);
  std::filesystem::remove(tree_.path("proc/47/environ"));
  EXPECT_THROW(job(), Failure);
}

TEST_F(DoctorJobTest, LinksStayInItsFileSystem) {
  const std::string root = tree_.path("proc/47/root");
  EXPECT_EQ(file_of(job(), "/lib/x/libc.so.6"), root + "/usr/lib/x/libc.so.6");
  EXPECT_EQ(file_of(job(), "/lib/../../../lib/x/./libc.so.6"), root + "/usr/lib/x/libc.so.6");
  EXPECT_EQ(file_of(job(), "/lib/none"), "");
  std::filesystem::create_symlink("b", root + "/a");
  std::filesystem::create_symlink("a", root + "/b");
  EXPECT_EQ(file_of(job(), "/a"), "");
}

TEST_F(DoctorJobTest, ALibraryIsFoundAsTheLoaderFindsIt) {
  EXPECT_EQ(library_of(job(), "libc.so.6"), "/lib/x/libc.so.6");
  EXPECT_EQ(library_of(job(), "libother.so"), "");
  in_root("opt/libother.so", "");
  EXPECT_EQ(library_of(job(), "/opt/libother.so"), "/opt/libother.so");
  set_environment({"LD_LIBRARY_PATH=/none:/opt"});
  EXPECT_EQ(library_of(job(), "libother.so"), "/opt/libother.so");
  tree_.write("proc/47/maps", "7f00-7f01 r--p 0 00:1 7    /wheel/libother.so\n7f01 rw-p [heap]\n");
  EXPECT_EQ(library_of(job(), "libother.so"), "/wheel/libother.so") << "it has loaded that one";
  EXPECT_EQ(named("glibc").saw, "2.31");
}

TEST_F(DoctorJobTest, ItsFilesAndEnvironmentDecideWhatNcclLoads) {
  expect(named("nccl net"), Verdict::kFine, "NCCL_NET=Lyre");
  expect(named("nccl plugin"), Verdict::kNote, "is not set");
  in_root("home/job/.nccl.conf", "NCCL_NET_PLUGIN=lyre\nLYRE_SOKET=/a\n");
  expect(named("nccl plugin"), Verdict::kProblem,
         "there is no libnccl-net-lyre.so in its file system");
  expect(named("settings"), Verdict::kProblem, "LYRE_SOKET");
  in_root("usr/lib/libnccl-net-lyre.so", text_of(client::own_mark()));
  expect(named("nccl plugin"), Verdict::kFine, "lyre: /lib/libnccl-net-lyre.so");
  expect(named("plugin"), Verdict::kFine, lyre_version());
}

TEST_F(DoctorJobTest, NcclLosesAPluginThatItIsNotToldToKeep) {
  EXPECT_EQ(named("nccl reload").check, "") << "it does not load Lyre's plugin";
  in_root("usr/lib/libnccl-net-lyre.so", text_of(client::own_mark()));
  in_root("home/job/.nccl.conf", "NCCL_NET_PLUGIN=lyre\n");
  const Finding missing = named("nccl reload");
  expect(missing, Verdict::kNote, "NCCL_NET_PLUGIN_REF_COUNT is not set");
  EXPECT_THAT(missing.why, HasSubstr("NCCL 2.28.3 to 2.29.7"));
  EXPECT_EQ(missing.mend, "export NCCL_NET_PLUGIN_REF_COUNT=1");
  set_environment({"NCCL_NET_PLUGIN_REF_COUNT=0"});
  expect(named("nccl reload"), Verdict::kNote, "NCCL_NET_PLUGIN_REF_COUNT=0");
  in_root("home/job/.nccl.conf", "NCCL_NET_PLUGIN=lyre\nNCCL_NET_PLUGIN_REF_COUNT=1\n");
  set_environment({"NCCL_NET=Lyre"});
  expect(named("nccl reload"), Verdict::kFine, "NCCL_NET_PLUGIN_REF_COUNT=1");
}

// Such files made `lyre doctor --pid` wait without end.
TEST_F(DoctorJobTest, FilesThatAreFifosAreNotOpened) {
  for (const char* name : {"etc/passwd", "etc/ld.so.cache", "etc/nccl.conf", "conf", "lyre.so"}) {
    const std::string path = tree_.path(std::string("proc/47/root/") + name);
    std::filesystem::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0666), 0);
  }
  const std::string library = tree_.path("proc/47/root/usr/lib/libc.so.6");
  ASSERT_EQ(::mkfifo(library.c_str(), 0666), 0);
  set_environment({"NCCL_CONF_FILE=/conf", "NCCL_NET_PLUGIN=/lyre.so", "HOME=/home/other"});
  EXPECT_EQ(home_of(job()), "/home/other");
  expect(named("nccl plugin"), Verdict::kNote, "is no plugin of Lyre");
  expect(named("glibc"), Verdict::kProblem, "not known");
}

// Such files made `lyre doctor --pid` read until the memory was used up.
TEST_F(DoctorJobTest, FilesWithoutEndAreNotRead) {
  std::filesystem::remove_all(tree_.path("proc/47/root"));
  std::filesystem::create_symlink("/", tree_.path("proc/47/root"));
  set_environment(
      {"NCCL_CONF_FILE=/dev/zero", "NCCL_NET_PLUGIN=/dev/zero", "LYRE_SOCKET=/nonexistent"});
  expect(named("nccl plugin"), Verdict::kNote, "is no plugin of Lyre");
}

TEST_F(DoctorJobTest, AnyBytesInItsNameAndEnvironmentAreReported) {
  tree_.write("proc/47/comm", "\x1b[2Jpython3\n");
  set_environment({"NCCL_NET=\xff\x1b]0;title"});
  const std::vector<Finding> findings = check_job(job());
  const std::string text = findings_text(findings);
  EXPECT_THAT(text, HasSubstr("47 (?[2Jpython3)"));
  EXPECT_THAT(text, HasSubstr("NCCL_NET=??]0;title"));
  EXPECT_THAT(findings_json(findings), HasSubstr("NCCL_NET=\uFFFD\\u001b]0;title"));
}

TEST_F(DoctorJobTest, ASocketThatIsMissingClosedOrDead) {
  expect(named("job socket"), Verdict::kProblem, "/run/lyre/lyred.sock in its file system is miss");
  in_root("other.sock", "");
  set_environment({"LYRE_SOCKET=/other.sock"});
  const std::string socket = tree_.path("proc/47/root/other.sock");
  std::filesystem::permissions(socket, std::filesystem::perms(0600));
  const Finding closed = named("job socket");
  expect(closed, Verdict::kProblem, "/other.sock in its file system has mode 0600");
  EXPECT_THAT(closed.mend, HasSubstr("--group-add"));
  std::filesystem::permissions(socket, std::filesystem::perms(0666));
  expect(named("job socket"), Verdict::kProblem, "no daemon listens there");
}

}  // namespace
}  // namespace lyre::tools
