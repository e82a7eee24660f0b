#include "libclient/attach.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "libclient/clock.h"
#include "libclient/silent_daemons.h"
#include "tests/unit/libclient/fake_daemon.h"

namespace lyre::client {
namespace {

int attach_to(const char* path, int patience_ms) {
  Attachment attachment;
  return attach({.path = path, .label = "", .arena_bytes = 0, .patience_ms = patience_ms},
                attachment);
}

/// A daemon whose control thread accepts nobody, and whose backlog is full.
class FullBacklog {
 public:
  FullBacklog() {
    char folder[] = "/tmp/lyre_backlog_XXXXXX";
    folder_ = ::mkdtemp(folder);
    path_ = folder_ + "/lyred.sock";
    address_.sun_family = AF_UNIX;
    std::strcpy(address_.sun_path, path_.c_str());
    const auto* address = reinterpret_cast<const sockaddr*>(&address_);
    EXPECT_EQ(0, ::bind(listener_.get(), address, sizeof address_));
    EXPECT_EQ(0, ::listen(listener_.get(), 0));
    do {
      waiting_.emplace_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    } while (::connect(waiting_.back().get(), address, sizeof address_) == 0);
  }
  ~FullBacklog() { std::filesystem::remove_all(folder_); }
  FullBacklog(const FullBacklog&) = delete;
  FullBacklog& operator=(const FullBacklog&) = delete;
  const char* path() const { return path_.c_str(); }

 private:
  std::string folder_, path_;
  sockaddr_un address_{};
  UniqueFd listener_{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  std::vector<UniqueFd> waiting_;
};

/// Sends this thread a signal again and again that interrupts what it waits in.
class Interruptions {
 public:
  Interruptions() {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, &before_);
    sender_ = std::thread([this, caller = ::pthread_self()] {
      while (!is_over_.load()) {
        ::pthread_kill(caller, SIGUSR1);
        ::usleep(2'000);
      }
    });
  }
  ~Interruptions() {
    is_over_.store(true);
    sender_.join();
    ::sigaction(SIGUSR1, &before_, nullptr);
  }
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;

 private:
  struct sigaction before_ {};
  std::atomic<bool> is_over_{false};
  std::thread sender_;
};

/// What attach() to `path` says to a user who is not root.
std::string said_to_a_user(const char* path) {
  int ends[2];
  EXPECT_EQ(0, ::pipe(ends));
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr id_t kNobody = 65534;
    if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) ::_exit(1);
    const bool is_closed = attach_to(path, 100) == LYRE_E_PERMISSION;
    const char* said = is_closed ? lyre_last_error() : "";
    ::_exit(::write(ends[1], said, std::strlen(said)) < 0 ? 1 : 0);
  }
  ::close(ends[1]);
  char text[512] = "";
  EXPECT_GE(::read(ends[0], text, sizeof text - 1), 0);
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return text;
}

TEST(Attach, SaysWhichGroupMayOpenTheSocket) {
  const FullBacklog daemon;
  const std::string path = daemon.path();
  std::filesystem::permissions(std::filesystem::path(path).parent_path(),
                               std::filesystem::perms(0755));
  constexpr gid_t kUnnamed = 54321;
  const bool is_root = ::geteuid() == 0;
  ASSERT_EQ(0, is_root ? ::chown(path.c_str(), 0, kUnnamed) : 0);
  ASSERT_EQ(0, ::chmod(path.c_str(), 0060));
  const std::string said = said_to_a_user(path.c_str());
  EXPECT_TRUE(said.starts_with(path + ": Permission denied (for members of ")) << said;
  EXPECT_NE(said.find("`lyre doctor`"), std::string::npos) << said;
  EXPECT_NE(said.find(is_root ? "`usermod -aG 54321 USER`" : "`usermod -aG "), std::string::npos)
      << said;
  ASSERT_EQ(0, ::chmod(path.c_str(), 0));
  EXPECT_EQ(said_to_a_user(path.c_str()), path + ": Permission denied (see `lyre doctor`)");
}

TEST(Attach, SaysThatADaemonWithAFullBacklogDoesNotAnswer) {
  const FullBacklog daemon;
  EXPECT_EQ(LYRE_E_DAEMON, attach_to(daemon.path(), 100));
  EXPECT_STREQ("the daemon did not answer within 0.1 seconds", lyre_last_error());
}

// Each signal began the wait anew: a profiler's timer made it endless.
TEST(Attach, OfACallerThatSignalsInterruptIsOverInTime) {
  const FullBacklog daemon;
  const Interruptions interruptions;
  EXPECT_EQ(LYRE_E_DAEMON, attach_to(daemon.path(), 100));
  EXPECT_STREQ("the daemon did not answer within 0.1 seconds", lyre_last_error());
}

/// What attach() says in a process that may have so many descriptors more, up to 1.
int attach_with_room_for(int descriptors, const char* path) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int lowest = ::dup(STDERR_FILENO);
    ::close(lowest);
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = static_cast<rlim_t>(lowest + descriptors);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    const bool is_right = attach_to(path, 30'000) == LYRE_E_DESCRIPTORS &&
                          std::strstr(lyre_last_error(), "ulimit -n") != nullptr;
    ::_exit(is_right ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

// It looked as if the daemon had no context left.
TEST(Attach, TellsOfTheLimitOfItsOwnProcess) {
  FakeDaemon daemon;
  EXPECT_EQ(0, attach_with_room_for(0, daemon.socket_path())) << "no room for the socket";
  EXPECT_EQ(0, attach_with_room_for(1, daemon.socket_path())) << "none for what the daemon gives";
}

/// Memory to register with a daemon that may have been silent.
class SilentDaemon : public ::testing::Test {
 protected:
  static constexpr size_t kBytes = 1 << 16;

  SilentDaemon() {
    EXPECT_EQ(0, ::ftruncate(file_.get(), kBytes));
    EXPECT_TRUE(memory_.map(file_.get(), kBytes, PROT_READ | PROT_WRITE));
  }
  /// Another context of the process waited for its answer in vain.
  void be_silent() {
    const int64_t now = now_ns();
    silent_daemons().on_silence(daemon_.socket_path(), now, now + 1);
  }
  int patience_ms() { return silent_daemons().patience_ms(daemon_.socket_path(), now_ns()); }

  FakeDaemon daemon_;
  UniqueFd file_{::memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  Mapping memory_;
};

// A job closes its communicators in series, and each has a context.
TEST_F(SilentDaemon, IsNotWaitedForAsLongAgain) {
  lyre_context* context = daemon_.attach();
  be_silent();
  lyre_region* region = nullptr;
  EXPECT_EQ(LYRE_E_DAEMON, lyre_register(context, memory_.data(), kBytes, &region));
  EXPECT_STREQ("the daemon did not answer within 2 seconds", lyre_last_error());
  EXPECT_EQ(LYRE_E_DAEMON, lyre_poll(context, 0)) << "the context is over";
  EXPECT_EQ(SilentDaemons::kShortPatienceMs, patience_ms());
  lyre_context_close(context);
}

TEST_F(SilentDaemon, IsNoneAfterItsAnswer) {
  lyre_context* context = daemon_.attach();
  be_silent();
  auto answer = std::async(std::launch::async, [this] {
    daemon_.take_registration();
    daemon_.answer_registration(7);
  });
  lyre_region* region = nullptr;
  EXPECT_EQ(0, lyre_register(context, memory_.data(), kBytes, &region)) << lyre_last_error();
  EXPECT_EQ(SilentDaemons::kPatienceMs, patience_ms());
  answer.get();
  lyre_context_close(context);
}

TEST_F(SilentDaemon, IsNoneAfterAnAttach) {
  be_silent();
  EXPECT_EQ(SilentDaemons::kShortPatienceMs, patience_ms());
  lyre_context* context = daemon_.attach();
  EXPECT_EQ(SilentDaemons::kPatienceMs, patience_ms());
  lyre_context_close(context);
}

uint32_t worker_of_first_session(uint64_t generation) {
  constexpr uint32_t kWorkers = 8;
  FakeDaemon daemon({.worker_count = kWorkers,
                     .distort = [&](channel::AttachReply& reply, channel::ContextHeader& header) {
                       reply.generation = header.generation = generation;
                     }});
  lyre_context* context = daemon.attach();
  const lyre_addr remote = address("10.9.0.2:5000");
  lyre_session* session = nullptr;
  EXPECT_EQ(0, lyre_connect(context, nullptr, &remote, &session));
  uint32_t worker = 0;
  while (worker < kWorkers && !daemon.try_take(worker)) ++worker;
  lyre_context_close(context);
  return worker;
}

// A job has a process for each GPU, and each one opened its first connections at the same workers.
TEST(Attach, ContextsThatFollowEachOtherBeginAtDifferentWorkers) {
  for (const uint64_t first : {uint64_t{1}, uint64_t{1000}, uint64_t{1} << 40}) {
    std::map<uint32_t, int> sessions;
    for (uint64_t i = 0; i < 8; ++i) ++sessions[worker_of_first_session(first + i)];
    EXPECT_GE(sessions.size(), 5u) << first;
    for (const auto& [worker, count] : sessions) EXPECT_LE(count, 2) << first;
  }
}

}  // namespace
}  // namespace lyre::client
