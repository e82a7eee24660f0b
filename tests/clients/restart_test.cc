#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libclient/include/lyre/lyre.h"
#include "tests/support/daemon_pair.h"
#include "tests/support/deadline.h"

// A daemon that comes back on a wire that its peer remembers, one that stood still, and one whose
// worker hangs.
namespace lyre::test {
namespace {

using Clock = std::chrono::steady_clock;

struct CloseContext {
  void operator()(lyre_context* context) const { lyre_context_close(context); }
};
using Context = std::unique_ptr<lyre_context, CloseContext>;

Context open(const DaemonPair& pair, int host) {
  const lyre_options options{.struct_bytes = sizeof options,
                             .socket_path = pair.socket(host).c_str(),
                             .label = "restart",
                             .arena_bytes = 0,
                             .patience_ms = 60'000};
  lyre_context* context = nullptr;
  EXPECT_EQ(lyre_context_open(&options, &context), 0) << lyre_last_error();
  return Context(context);
}

struct Connection {
  lyre_session* session = nullptr;
  lyre_listener* listener = nullptr;
};

/// Connects `from` to a listener of `to`, the host 1.
Connection connect(const DaemonPair& pair, lyre_context* from, lyre_context* to) {
  lyre_addr address{};
  Connection out;
  EXPECT_EQ(lyre_addr_parse((pair.address(1) + ":5000").c_str(), &address), 0);
  EXPECT_EQ(lyre_listen(to, &address, 16, &out.listener), 0) << lyre_last_error();
  EXPECT_EQ(lyre_connect(from, nullptr, &address, &out.session), 0) << lyre_last_error();
  const Deadline deadline;
  while (lyre_state(out.session) == LYRE_CONNECTING && !deadline.is_over()) {
    lyre_poll(from, 10);
    lyre_poll(to, 0);
  }
  return out;
}

bool can_connect(const DaemonPair& pair, lyre_context* from, lyre_context* to) {
  return lyre_state(connect(pair, from, to).session) == LYRE_OPEN;
}

// Regression: the status was discarded, so a daemon that crashed while it stopped failed no test.
TEST(DaemonPairEnd, OfADaemonThatTheTestDidNotKillIsAFailure) {
  DaemonPair pair(std::getenv("LYRE_TEST_LYRED"));
  ::kill(pair.pid(1), SIGKILL);  // as a crash
  EXPECT_NONFATAL_FAILURE(pair.terminate(1), "ended with signal 9, not with exit status 0");
  ::kill(pair.pid(0), SIGKILL);
  pair.kill(0);
}

// Its MAC is another one, and the link comes long after it was announced.
TEST(Restart, OnAWireThatIsDownIsHeardOfWhenItComesUp) {
  DaemonPair pair(std::getenv("LYRE_TEST_LYRED"));
  const Context from = open(pair, 0);
  EXPECT_TRUE(can_connect(pair, from.get(), open(pair, 1).get()));
  pair.kill(1);
  ::kill(pair.pid(0), SIGSTOP);
  pair.restart(1, DaemonPair::Wire::kAny);
  ::sleep(3);
  ::kill(pair.pid(0), SIGCONT);
  EXPECT_TRUE(can_connect(pair, from.get(), open(pair, 1).get()))
      << pair.log_tail(0) << pair.log_tail(1);
}

// Without a session nothing but the end of the control connection tells a client of the stop.
TEST(Restart, AfterAStopInOrderIsNoReasonToStayAway) {
  DaemonPair pair(std::getenv("LYRE_TEST_LYRED"));
  const Context idle = open(pair, 1);
  pair.terminate(1);
  int happened = 0;
  const Deadline deadline;
  while (happened == 0 && !deadline.is_over()) happened = lyre_poll(idle.get(), 10);
  EXPECT_EQ(happened, LYRE_E_DAEMON) << lyre_last_error();
}

/// Sends from one end to the other until `is_done`, which gets the bytes received so far.
void transfer_until(lyre_context* from, lyre_session* sender, lyre_context* to,
                    lyre_session* receiver, const std::function<bool(uint64_t)>& is_done) {
  std::vector<uint8_t> bytes(64 * 1024);
  for (uint64_t received = 0; !is_done(received);) {
    lyre_send(sender, bytes.data(), bytes.size());
    lyre_poll(from, 1);
    lyre_poll(to, 0);
    received += static_cast<uint64_t>(
        std::max<int64_t>(lyre_recv(receiver, bytes.data(), bytes.size()), 0));
  }
}

/// Several times what the tests ask the host 0 to run while the host 1 stands still, because a slow
/// machine may let it run longer than they ask.
constexpr const char* kUserTimeout = "user_timeout_ms = 4000\n";

class Standstill : public ::testing::Test {
 protected:
  Standstill()
      : pair_(std::getenv("LYRE_TEST_LYRED"), kUserTimeout),
        from_(open(pair_, 0)),
        to_(open(pair_, 1)),
        connection_(connect(pair_, from_.get(), to_.get())) {
    while (lyre_accept(connection_.listener, &accepted_) == LYRE_E_AGAIN) lyre_poll(to_.get(), 10);
  }
  void transfer_for(std::chrono::milliseconds time) {
    const auto end = Clock::now() + time;
    transfer_until(from_.get(), connection_.session, to_.get(), accepted_,
                   [&](uint64_t) { return Clock::now() >= end; });
  }
  /// About a minute at most.
  bool can_transfer(uint64_t bytes) {
    const Deadline deadline;
    uint64_t received = 0;
    transfer_until(from_.get(), connection_.session, to_.get(), accepted_, [&](uint64_t so_far) {
      received = so_far;
      return so_far >= bytes || lyre_state(connection_.session) != LYRE_OPEN || deadline.is_over();
    });
    return received >= bytes;
  }
  /// The host 0 has sent what the other one, which stands still, did not acknowledge.
  void stop_in_mid_transfer() {
    ASSERT_NE(accepted_, nullptr);
    ASSERT_TRUE(can_transfer(1));
    ::kill(pair_.pid(1), SIGSTOP);
    transfer_for(std::chrono::milliseconds(100));
    ::kill(pair_.pid(0), SIGSTOP);
  }
  void expect_goes_on() {
    ::kill(pair_.pid(0), SIGCONT);
    transfer_for(std::chrono::milliseconds(100));
    ::kill(pair_.pid(1), SIGCONT);
    // More than can have been on its way when the host 1 stopped.
    EXPECT_TRUE(can_transfer(64 << 20)) << pair_.log_tail(0) << pair_.log_tail(1);
    EXPECT_EQ(lyre_state(connection_.session), LYRE_OPEN) << pair_.log_tail(0) << pair_.log_tail(1);
  }

  DaemonPair pair_;
  const Context from_;
  const Context to_;
  const Connection connection_;
  lyre_session* accepted_ = nullptr;
};

TEST_F(Standstill, OfBothHostsForLongerThanTheUserTimeoutEndsNoSession) {
  stop_in_mid_transfer();
  ::sleep(8);
  expect_goes_on();
}

// As beside many computing processes: a slice for Lyre, and many for others.
TEST_F(Standstill, OfManySlicesEndsNoSession) {
  stop_in_mid_transfer();
  for (int i = 0; i < 16; ++i) {
    ::usleep(500'000);
    ::kill(pair_.pid(0), SIGCONT);
    ::usleep(10'000);
    ::kill(pair_.pid(0), SIGSTOP);
  }
  expect_goes_on();
}

/// The worker's thread of a daemon, which makes no turn as long as this object exists: a tracer has
/// stopped it. The other threads of the process run on.
class StoppedWorker {
 public:
  explicit StoppedWorker(pid_t process) : thread_(worker_of(process)) {
    is_stopped_ = thread_ > 0 && ::ptrace(PTRACE_SEIZE, thread_, nullptr, nullptr) == 0 &&
                  ::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) == 0 &&
                  ::waitpid(thread_, nullptr, __WALL) == thread_;
  }
  ~StoppedWorker() {
    if (is_stopped_) ::ptrace(PTRACE_DETACH, thread_, nullptr, nullptr);
  }
  StoppedWorker(const StoppedWorker&) = delete;
  StoppedWorker& operator=(const StoppedWorker&) = delete;

  bool is_stopped() const { return is_stopped_; }
  /// Waits until its process ends, a minute at most: a process has not ended for others before the
  /// tracer has heard of the end of the thread.
  void await_end() {
    const Deadline deadline;
    while (is_stopped_ && !deadline.is_over()) {
      int status = 0;
      const pid_t changed = ::waitpid(thread_, &status, __WALL | WNOHANG);
      is_stopped_ = changed == 0 || (changed == thread_ && WIFSTOPPED(status));
      ::usleep(10'000);
    }
  }

 private:
  static pid_t worker_of(pid_t process) {
    const std::filesystem::path threads = "/proc/" + std::to_string(process) + "/task";
    for (const auto& entry : std::filesystem::directory_iterator(threads)) {
      std::string name;
      std::ifstream(entry.path() / "comm") >> name;
      if (name.starts_with("lyre-core")) return std::stoi(entry.path().filename());
    }
    return -1;
  }

  const pid_t thread_;
  bool is_stopped_ = false;
};

// Containers have no watchdog, and that of the service waits longer, because its machine may have
// been paused: the daemon itself has to make room for another one.
TEST(Hang, OfAWorkerEndsItsDaemonAndAnotherOneServes) {
  constexpr rlimit kNoCore{};
  ::setrlimit(RLIMIT_CORE, &kNoCore);
  ::setenv("WATCHDOG_USEC", "600000000", 1);
  DaemonPair pair(std::getenv("LYRE_TEST_LYRED"));
  ::unsetenv("WATCHDOG_USEC");
  const Context from = open(pair, 0);
  {
    StoppedWorker worker(pair.pid(1));
    if (!worker.is_stopped()) GTEST_SKIP() << "may not trace a thread";
    worker.await_end();
  }
  EXPECT_EQ(pair.await_end(1), "signal " + std::to_string(SIGABRT)) << pair.log_tail(1);
  EXPECT_NE(pair.log(1).find("a worker has made no turn for "), std::string::npos)
      << pair.log_tail(1);
  pair.restart(1);
  EXPECT_TRUE(can_connect(pair, from.get(), open(pair, 1).get()));
}

TEST(Hang, OfAWorkerDoesNotKeepItsDaemonFromStopping) {
  DaemonPair pair(std::getenv("LYRE_TEST_LYRED"));
  {
    StoppedWorker worker(pair.pid(1));
    if (!worker.is_stopped()) GTEST_SKIP() << "may not trace a thread";
    ::kill(pair.pid(1), SIGTERM);
    worker.await_end();
  }
  EXPECT_EQ(pair.await_end(1), "exit status 1") << pair.log_tail(1);
  EXPECT_NE(pair.log(1).find("a worker hangs: the daemon ends without stopping it"),
            std::string::npos)
      << pair.log_tail(1);
}

}  // namespace
}  // namespace lyre::test
