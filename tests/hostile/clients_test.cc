#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/hostile/honest_pair.h"
#include "tests/hostile/raw_client.h"
#include "tests/hostile/sparse_memory.h"
#include "tests/support/daemon_pair.h"
#include "tests/support/worker_counters.h"

// Clients that break the rules of the channel on purpose, with a real daemon and a correct transfer
// beside them.
namespace lyre::test {
namespace {

using Clock = std::chrono::steady_clock;

/// Runs scribbler.py until its end.
class Scribbler {
 public:
  Scribbler(const std::string& socket, int seed) {
    const std::string program = std::getenv("LYRE_TEST_SCRIBBLER");
    const std::string number = std::to_string(seed);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::execlp("python3", "python3", "-B", program.c_str(), socket.c_str(), number.c_str(), nullptr);
    ::_exit(127);
  }
  ~Scribbler() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Scribbler(const Scribbler&) = delete;
  Scribbler& operator=(const Scribbler&) = delete;

 private:
  pid_t pid_;
};

/// Two daemons, and correct clients that transfer between them.
class HostileClients : public testing::Test {
 protected:
  static constexpr uint16_t kPort = 6000;

  HostileClients()
      : pair(std::getenv("LYRE_TEST_LYRED"),
             "[clients]\ncontexts_max = 3\nlog_lines_per_minute_max = 1000000\n"),
        honest(pair) {}

  /// A session of the hostile client with itself.
  static RawClient::Ends connect_to_itself(RawClient& hostile, int host = 0,
                                           uint16_t port = kPort) {
    const uint32_t address = 0x0a4d0001 + static_cast<uint32_t>(host);
    const RawClient::Ends ends = hostile.connect_to_itself({IpAddress::v4(address), port});
    EXPECT_NE(ends.far.generation, 0u);
    return ends;
  }

  DaemonPair pair;
  HonestPair honest;
};

// Regression: pieces queued behind a FIN stayed with sessions in TIME-WAIT when their client left.
// Such clients, one after the other, used up the worker's pieces, and it stopped.
TEST_F(HostileClients, SendsAfterShutdownLeaveNothingBehind) {
  constexpr uint32_t kSessions = channel::kSendsPerContextMax / channel::kSendsOutstandingMax;
  for (int life = 0; life < 4; ++life) {
    SCOPED_TRACE(life);
    RawClient hostile(pair.socket(0));
    ASSERT_TRUE(hostile.listen(kPort));
    std::vector<RawClient::Ends> sessions;
    for (uint32_t i = 0; i < kSessions; ++i) sessions.push_back(connect_to_itself(hostile));
    for (const RawClient::Ends& session : sessions) {
      hostile.tell(channel::Op::kShutdown, session.near);
      for (uint32_t i = 0; i < channel::kSendsOutstandingMax; ++i) hostile.send(session.near, 1);
      hostile.tell(channel::Op::kClose, session.far);
    }
    EXPECT_TRUE(hostile.await_hang_up());
    ASSERT_TRUE(pair.is_running(0)) << pair.log_tail(0);
    honest.expect_transfer();
  }
}

// Sessions with itself that it does not read. They took every receive slot of the worker: then no
// packet came in any more, ARP included, until the client ended.
TEST_F(HostileClients, UnreadSessionsLeaveReceiveSlotsToOthers) {
  constexpr uint32_t kSessions = 1200;
  constexpr uint32_t kBytes = 200'000;
  RawClient hostile(pair.socket(1));
  ASSERT_TRUE(hostile.listen(kPort));
  std::vector<RawClient::Ends> sessions;
  for (uint32_t i = 0; i < kSessions; ++i) sessions.push_back(connect_to_itself(hostile, 1));
  for (const RawClient::Ends& session : sessions) {
    hostile.take_all();  // a worker takes nothing of a client whose ring is full
    hostile.send(session.near, kBytes);
  }
  const WorkerCounters counters(pair.socket(1));
  const uint64_t slots = counters[&channel::WorkerStats::rx_slots_total];
  const auto end = Clock::now() + std::chrono::seconds(2);
  while (Clock::now() < end && !HasFailure()) {
    hostile.take_all();
    honest.expect_transfer();
    // A 16th is kept free, half of which takes bytes that a reader waits for.
    EXPECT_GT(32 * counters[&channel::WorkerStats::rx_slots_free], slots);
  }
  ASSERT_TRUE(pair.is_running(1)) << pair.log_tail(1);
}

// An orphan could name a region of another client by its index.
TEST_F(HostileClients, SendsOfARegionOfAnotherClientAreRefused) {
  const SparseMemory memory(kMiB);
  RawClient owner(pair.socket(0));
  const uint32_t name = owner.register_file(memory.file(), memory.bytes());
  ASSERT_NE(name, 0u);
  {
    RawClient thief(pair.socket(0));
    ASSERT_TRUE(thief.listen(kPort));
    thief.send(connect_to_itself(thief).near, 1000, name);
    EXPECT_TRUE(thief.await_hang_up());
  }
  ASSERT_TRUE(owner.listen(kPort + 1));
  owner.send(connect_to_itself(owner, 0, kPort + 1).near, 1000, name);
  EXPECT_EQ(owner.next().event, channel::Event::kData) << "its own";
  honest.expect_transfer();
}

// Header, rings and control socket of both hosts get noise, and their clients come back.
TEST_F(HostileClients, ScribblersAreDisconnectedAndDisturbNobody) {
  constexpr size_t kLogLines = 40;  // attached, detached or disconnected
  // One in twenty contexts has noise in the index of its submissions, for which it is disconnected.
  constexpr auto kPatience = std::chrono::minutes(4);
  const Scribbler scribblers[] = {Scribbler(pair.socket(0), 1), Scribbler(pair.socket(1), 2)};
  const auto end = Clock::now() + kPatience;
  for (const int host : {0, 1}) {
    while ((log_lines_with(pair, host, "'scribbler'") < kLogLines ||
            log_lines_with(pair, host, "'scribbler'", "disconnected: ") == 0) &&
           !HasFailure()) {
      honest.expect_transfer();
      ASSERT_TRUE(pair.is_running(host)) << pair.log_tail(host);
      ASSERT_LT(Clock::now(), end) << "no scribbler was disconnected\n" << pair.log_tail(host);
    }
  }
}

}  // namespace
}  // namespace lyre::test
