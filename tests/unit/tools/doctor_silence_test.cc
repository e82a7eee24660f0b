#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "libclient/include/lyre/lyre.h"
#include "stack/channel/control.h"
#include "tests/unit/machine/tree.h"
#include "tests/unit/tools/expect_finding.h"
#include "tools/lyre/doctor/daemon_checks.h"
#include "tools/lyre/doctor/job.h"
#include "tools/lyre/doctor/job_checks.h"
#include "tools/lyre/failure.h"

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

/// Says goodbye to all who ask at its socket.
class RefusingDaemon {
 public:
  RefusingDaemon(const std::string& path, const channel::Goodbye& goodbye)
      : listener_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    std::filesystem::permissions(path, std::filesystem::perms(0666));
    thread_ = std::thread([listener = listener_, goodbye] { answer(listener, goodbye); });
  }
  ~RefusingDaemon() {
    ::shutdown(listener_, SHUT_RDWR);  // accept() fails
    thread_.join();
    ::close(listener_);
  }
  RefusingDaemon(const RefusingDaemon&) = delete;
  RefusingDaemon& operator=(const RefusingDaemon&) = delete;

 private:
  static void answer(int listener, const channel::Goodbye& goodbye) {
    for (;;) {
      const int client = ::accept(listener, nullptr, nullptr);
      if (client < 0) return;
      channel::InfoRequest request;
      EXPECT_EQ(::recv(client, &request, sizeof request, 0), ssize_t{sizeof request});
      EXPECT_EQ(::send(client, &goodbye, sizeof goodbye, MSG_NOSIGNAL), ssize_t{sizeof goodbye});
      ::close(client);
    }
  }

  int listener_;
  std::thread thread_;
};

class DoctorSilenceTest : public ::testing::Test {
 protected:
  DoctorSilenceTest() { std::filesystem::create_directories(tree_.path("root/run")); }
  std::string path() const { return tree_.path("root/run/a.sock").string(); }
  Finding of_daemon() const { return check_daemon(path().c_str()).at(0); }
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
  const RefusingDaemon daemon(path(), goodbye_with("no member of the domain 'team-b'"));
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
  const RefusingDaemon daemon(path(), goodbye);
  expect(of_daemon(), Verdict::kProblem, "the daemon speaks control version 200");
  EXPECT_THAT(of_daemon().mend, HasSubstr("installed with the daemon"));
  // The plugin in the job is not this lyre.
  expect(of_job(own_uid_), Verdict::kNote, "the daemon speaks control version 200");
}

TEST_F(DoctorSilenceTest, OfASocketThatIsClosedToThisUser) {
  const Failure closed(kExitNoDaemon, "/a: Permission denied", LYRE_E_PERMISSION);
  EXPECT_EQ(silence_of(closed), Silence::kClosed);
  const Failure refused(kExitNoDaemon, "the daemon refused: for root only", LYRE_E_PERMISSION);
  EXPECT_EQ(silence_of(refused), Silence::kRefused);
}

}  // namespace
}  // namespace lyre::tools
