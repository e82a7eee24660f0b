#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "libclient/include/lyre/lyre.h"
#include "stack/channel/control.h"
#include "tests/unit/machine/tree.h"
#include "tests/unit/tools/expect_finding.h"
#include "tests/unit/tools/stats_segment.h"
#include "tools/lyre/doctor/daemon_checks.h"
#include "tools/lyre/doctor/job.h"
#include "tools/lyre/doctor/job_checks.h"
#include "tools/lyre/doctor/listener.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

channel::Goodbye goodbye_with(const char* text) {
  channel::Goodbye goodbye{};
  goodbye.header.type = channel::Control::kGoodbye;
  goodbye.header.bytes = sizeof goodbye;
  std::strcpy(goodbye.text, text);
  return goodbye;
}

/// Answers all who ask at its socket.
class TestDaemon {
 public:
  using Answer = std::function<void(int client)>;

  /// `uid`: of the process that listens there, as the kernel has it. Another one needs root.
  TestDaemon(const std::string& path, Answer answer, uint32_t uid = ::geteuid())
      : answer_(std::move(answer)), listener_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const uint32_t own_uid = ::geteuid();
    EXPECT_EQ(::seteuid(uid), 0);
    EXPECT_EQ(::listen(listener_, 4), 0);
    EXPECT_EQ(::seteuid(own_uid), 0);
    std::filesystem::permissions(path, std::filesystem::perms(0666));
    thread_ = std::thread([this] { serve(); });
  }
  ~TestDaemon() {
    ::shutdown(listener_, SHUT_RDWR);  // accept() fails
    thread_.join();
    ::close(listener_);
  }
  TestDaemon(const TestDaemon&) = delete;
  TestDaemon& operator=(const TestDaemon&) = delete;

  /// Requests that it has read.
  int asked() const { return asked_; }

 private:
  void serve() {
    for (;;) {
      const int client = ::accept(listener_, nullptr, nullptr);
      if (client < 0) return;
      channel::InfoRequest request;
      // None of a client that only asks the kernel who listens.
      if (const ssize_t bytes = ::recv(client, &request, sizeof request, 0); bytes > 0) {
        EXPECT_EQ(bytes, ssize_t{sizeof request});
        ++asked_;
        answer_(client);
      }
      ::close(client);
    }
  }

  const Answer answer_;
  int listener_;
  std::atomic<int> asked_{0};
  std::thread thread_;
};

TestDaemon::Answer refuses_with(const channel::Goodbye& goodbye) {
  return [goodbye](int client) {
    EXPECT_EQ(::send(client, &goodbye, sizeof goodbye, MSG_NOSIGNAL), ssize_t{sizeof goodbye});
  };
}

/// Gives a stats segment to all who ask.
TestDaemon::Answer shows(const FakeSegment& segment, int seals = F_SEAL_SHRINK | F_SEAL_GROW) {
  return [&segment, seals](int client) {
    const int memory = ::memfd_create("lyre-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(::write(memory, segment.data(), segment.bytes()),
              static_cast<ssize_t>(segment.bytes()));
    EXPECT_EQ(::fcntl(memory, F_ADD_SEALS, seals), 0);
    channel::InfoReply reply{};
    reply.header.type = channel::Control::kInfoReply;
    reply.header.bytes = sizeof reply;
    reply.stats_bytes = segment.bytes();
    iovec bytes{&reply, sizeof reply};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof memory)] = {};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof memory);
    std::memcpy(CMSG_DATA(part), &memory, sizeof memory);
    EXPECT_EQ(::sendmsg(client, &message, MSG_NOSIGNAL), ssize_t{sizeof reply});
    ::close(memory);
  };
}

class DoctorSilenceTest : public ::testing::Test {
 protected:
  DoctorSilenceTest() { std::filesystem::create_directories(tree_.path("root/run")); }
  std::string path() const { return tree_.path("root/run/a.sock").string(); }
  Finding of_daemon() const { return check_daemon(path().c_str()).at(0); }
  /// Of a command that reads the daemon's statistics.
  int exit_code() const {
    try {
      const StatsSegment segment(path().c_str());
      return 0;
    } catch (const Failure& failure) {
      return failure.exit_code();
    }
  }
  Finding of_job(uint32_t uid) const {
    Job job;
    job.pid = 47;
    job.root = tree_.path("root").string();
    job.environment = {"LYRE_SOCKET=/run/a.sock"};
    job.uid = uid;
    return check_job(job).back();
  }

  const uint32_t own_uid_ = ::geteuid();
  machine::Tree tree_;
};

TEST_F(DoctorSilenceTest, OfADaemonThatIsAbsent) {
  tree_.write("root/run/a.sock", "");
  std::filesystem::permissions(path(), std::filesystem::perms(0666));
  expect(of_daemon(), Verdict::kProblem, "no daemon listens there");
  EXPECT_THAT(of_daemon().mend, HasSubstr("systemctl enable --now lyred"));
  std::vector<Finding> as_tenant{of_daemon()};
  refer_to_administrator(as_tenant);
  EXPECT_EQ(as_tenant[0].mend, of_daemon().mend) << "it names no configuration";
  expect(of_job(own_uid_), Verdict::kProblem, "no daemon listens there");
  EXPECT_THAT(of_job(own_uid_).mend, HasSubstr("systemctl start lyred"));
}

TEST_F(DoctorSilenceTest, OfADomainWhoseMemberThisUserIsNot) {
  const TestDaemon daemon(path(), refuses_with(goodbye_with("no member of the domain 'team-b'")));
  const std::string refusal = "the daemon refused: no member of the domain 'team-b'";
  const auto is_of_a_domain = AllOf(HasSubstr("[[domain]]"), Not(HasSubstr("systemctl")));
  expect(of_daemon(), Verdict::kProblem, refusal);
  EXPECT_THAT(of_daemon().mend, is_of_a_domain);
  expect(of_job(own_uid_), Verdict::kProblem, refusal);
  EXPECT_THAT(of_job(own_uid_).mend, is_of_a_domain);
  std::vector<Finding> as_tenant{of_daemon(), of_job(own_uid_)};
  refer_to_administrator(as_tenant);
  for (const Finding& finding : as_tenant) {
    EXPECT_THAT(finding.mend, HasSubstr("ask the administrator of this machine"));
  }
  // The job's user may be a member.
  expect(of_job(own_uid_ + 1), Verdict::kNote, refusal);
  EXPECT_THAT(of_job(own_uid_ + 1).mend, HasSubstr("lyre doctor --pid 47"));
}

TEST_F(DoctorSilenceTest, OfADaemonOfAnotherRelease) {
  channel::Goodbye goodbye = goodbye_with("");
  goodbye.header.versions = {200, 201};
  const TestDaemon daemon(path(), refuses_with(goodbye));
  expect(of_daemon(), Verdict::kProblem, "the daemon speaks control version 200");
  EXPECT_THAT(of_daemon().mend, HasSubstr("installed with the daemon"));
  EXPECT_EQ(exit_code(), kExitNoDaemon) << "nor does a new plugin speak with it";
  // The plugin in the job is not this lyre.
  expect(of_job(own_uid_), Verdict::kNote, "the daemon speaks control version 200");
}

// It may serve jobs. A prolog drained its host.
TEST_F(DoctorSilenceTest, OfADaemonWhoseStatsAreOfAnotherReleaseTheExitStatusIsAnother) {
  FakeSegment segment;
  segment.header().version = channel::kStatsVersion + 1;
  const TestDaemon daemon(path(), shows(segment));
  EXPECT_EQ(exit_code(), kExitOtherRelease);
}

// What the daemon of a job's socket said of its process was repeated.
TEST_F(DoctorSilenceTest, WhichProcessAnswersAJobTheKernelSays) {
  FakeSegment segment;
  ASSERT_NE(segment.header().pid, ::getpid());
  const TestDaemon daemon(path(), shows(segment));
  expect(of_job(own_uid_), Verdict::kFine,
         "/run/a.sock in its file system: lyred 0.1.0 answers, process " +
             std::to_string(::getpid()) + " of uid " + std::to_string(own_uid_));
}

// A job can name a socket of its own in LYRE_SOCKET.
TEST_F(DoctorSilenceTest, OfADaemonOfAnotherUser) {
  if (own_uid_ != 0) GTEST_SKIP() << "needs root";
  FakeSegment segment;
  const TestDaemon daemon(path(), shows(segment), 65534);
  expect(of_job(65534), Verdict::kNote, " of uid 65534 listens there, allowed: root");
  EXPECT_THAT(of_job(65534).mend, HasSubstr("as uid 65534: lyre doctor --pid 47"));
  EXPECT_EQ(daemon.asked(), 0);
}

TEST_F(DoctorSilenceTest, RootAndThisUserMayBeTheDaemon) {
  EXPECT_TRUE(may_be_daemon({.pid = 1, .uid = 0}));
  EXPECT_TRUE(may_be_daemon({.pid = 1, .uid = own_uid_}));
  EXPECT_FALSE(may_be_daemon({.pid = 1, .uid = 0x7fff'fffe}));
}

TEST_F(DoctorSilenceTest, ASocketThatIsHeldStaysTheSameOne) {
  const TestDaemon daemon(path(), refuses_with(goodbye_with("")));
  const HeldFile held(path());
  std::filesystem::remove(path());
  tree_.write("root/run/a.sock", "");
  bool is_busy = false;
  EXPECT_FALSE(listener_at(path(), &is_busy).has_value());
  const auto listener = listener_at(held.path(), &is_busy);
  ASSERT_TRUE(listener.has_value());
  EXPECT_EQ(listener->pid, ::getpid());
}

// The end of its file, cut off after the answer, was SIGBUS.
TEST_F(DoctorSilenceTest, OfADaemonWhoseSegmentMayShrink) {
  FakeSegment segment;
  const TestDaemon daemon(path(), shows(segment, F_SEAL_GROW));
  expect(of_job(own_uid_), Verdict::kNote, "stats segment is not a sealed memfd");
}

// It may let a connection that waits come later, when it is not asked who listens.
TEST_F(DoctorSilenceTest, OfASocketWhoseQueueIsFull) {
  const client::UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const client::UniqueFd waits(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path().copy(address.sun_path, sizeof address.sun_path - 1);
  const auto* at = reinterpret_cast<const sockaddr*>(&address);
  ASSERT_EQ(::bind(listener.get(), at, sizeof address), 0);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  ASSERT_EQ(::connect(waits.get(), at, sizeof address), 0);
  expect(of_job(own_uid_), Verdict::kNote, "more connections wait there than are taken");
}

// Control characters change what a terminal shows.
TEST_F(DoctorSilenceTest, WhatADaemonSaysIsPrintable) {
  const TestDaemon daemon(path(), refuses_with(goodbye_with("\x1b[2Jall is well\n")));
  try {
    const StatsSegment segment(path().c_str());
    FAIL() << "it was refused";
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("the daemon refused: ?[2Jall is well?"));
  }
}

TEST_F(DoctorSilenceTest, OfASocketThatIsClosedToThisUser) {
  const Failure closed(kExitNoDaemon, "/a: Permission denied (see `lyre doctor`)",
                       LYRE_E_PERMISSION);
  EXPECT_EQ(silence_of(closed), Silence::kClosed);
  EXPECT_EQ(reason_of(closed), "/a: Permission denied");
  const Failure refused(kExitNoDaemon, "the daemon refused: for root only", LYRE_E_PERMISSION);
  EXPECT_EQ(silence_of(refused), Silence::kRefused);
}

}  // namespace
}  // namespace lyre::tools
