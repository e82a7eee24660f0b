#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <vector>

#include "tests/hostile/honest_pair.h"
#include "tests/hostile/raw_client.h"
#include "tests/support/daemon_pair.h"

// Clients that break the rules of the channel on purpose, with a real daemon and a correct transfer
// beside them.
namespace lyre::test {
namespace {

using Clock = std::chrono::steady_clock;

/// Two daemons, and correct clients that transfer between them.
class HostileClients : public testing::Test {
 protected:
  static constexpr uint16_t kPort = 6000;

  HostileClients()
      : pair(std::getenv("LYRE_TEST_LYRED"), "[clients]\ncontexts_max = 2\n"), honest(pair) {}

  struct Ends {
    channel::SessionName near, far;
  };
  /// A session of the hostile client with itself.
  static Ends connect_to_itself(RawClient& hostile, int host = 0) {
    Ends ends;
    const uint32_t address = 0x0a4d0001 + static_cast<uint32_t>(host);
    EXPECT_TRUE(hostile.connect({IpAddress::v4(address), kPort}));
    while (ends.near.generation == 0 || ends.far.generation == 0) {
      const channel::Completion entry = hostile.next();
      if (entry.event == channel::Event::kConnected) ends.near = entry.session;
      if (entry.event == channel::Event::kAccepted) ends.far = entry.session;
      if (entry.event == channel::Event::kNone) break;
    }
    EXPECT_NE(ends.far.generation, 0u);
    return ends;
  }

  DaemonPair pair;
  HonestPair honest;
};

// Regression: pieces queued behind a FIN stayed with sessions in TIME-WAIT when their client left.
// Three such clients, one after the other, used up the worker's pieces, and it stopped.
TEST_F(HostileClients, SendsAfterShutdownLeaveNothingBehind) {
  constexpr uint32_t kSessions = channel::kSendsPerContextMax / channel::kSendsOutstandingMax;
  for (int life = 0; life < 3; ++life) {
    SCOPED_TRACE(life);
    RawClient hostile(pair.socket(0));
    ASSERT_TRUE(hostile.listen(kPort));
    std::vector<Ends> sessions;
    for (uint32_t i = 0; i < kSessions; ++i) sessions.push_back(connect_to_itself(hostile));
    for (const Ends& session : sessions) {
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
  std::vector<Ends> sessions;
  for (uint32_t i = 0; i < kSessions; ++i) sessions.push_back(connect_to_itself(hostile, 1));
  for (const Ends& session : sessions) {
    hostile.take_all();  // a worker takes nothing of a client whose ring is full
    hostile.send(session.near, kBytes);
  }
  const auto end = Clock::now() + std::chrono::seconds(2);
  while (Clock::now() < end && !HasFailure()) {
    hostile.take_all();
    honest.expect_transfer();
  }
  ASSERT_TRUE(pair.is_running(1)) << pair.log_tail(1);
}

}  // namespace
}  // namespace lyre::test
