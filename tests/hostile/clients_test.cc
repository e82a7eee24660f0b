#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "libclient/include/lyre/lyre.h"
#include "tests/hostile/raw_client.h"
#include "tests/support/daemon_pair.h"

// Clients that break the rules of the channel on purpose, with a real daemon and a correct transfer
// beside them.
namespace lyre::test {
namespace {

using Clock = std::chrono::steady_clock;

struct CloseContext {
  void operator()(lyre_context* context) const { lyre_context_close(context); }
};
using Context = std::unique_ptr<lyre_context, CloseContext>;

/// Two daemons, and a session of correct clients from host 0 to host 1.
class HostileClients : public testing::Test {
 protected:
  static constexpr uint16_t kPort = 6000;

  HostileClients()
      : pair(std::getenv("LYRE_TEST_LYRED"), "[clients]\ncontexts_max = 2\n"),
        from(open(0)),
        to(open(1)) {}

  void SetUp() override {
    lyre_addr address{};
    lyre_listener* listener = nullptr;
    ASSERT_EQ(lyre_addr_parse((pair.address(1) + ":5000").c_str(), &address), 0);
    ASSERT_EQ(lyre_listen(to.get(), &address, 16, &listener), 0) << lyre_last_error();
    ASSERT_EQ(lyre_connect(from.get(), nullptr, &address, &sender), 0) << lyre_last_error();
    ASSERT_TRUE(run_until([&] {
      if (receiver == nullptr) lyre_accept(listener, &receiver);
      return receiver != nullptr && lyre_state(sender) == LYRE_OPEN;
    })) << pair.log_tail(0);
  }

  Context open(int host) {
    const lyre_options options{.struct_bytes = sizeof options,
                               .socket_path = pair.socket(host).c_str(),
                               .label = "honest",
                               .arena_bytes = 0};
    lyre_context* context = nullptr;
    // The context that waited for the daemon to be ready may still have a place.
    const auto end = Clock::now() + std::chrono::seconds(20);
    while (lyre_context_open(&options, &context) == LYRE_E_NORESOURCES && Clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_NE(context, nullptr) << lyre_last_error();
    return Context(context);
  }
  template <typename IsDone>
  bool run_until(IsDone is_done) {
    const auto end = Clock::now() + std::chrono::seconds(20);
    while (!is_done()) {
      if (Clock::now() > end) return false;
      lyre_poll(from.get(), 1);
      lyre_poll(to.get(), 0);
    }
    return true;
  }
  /// Sends bytes of a pattern, and expects that they arrive complete and in order.
  void expect_transfer() {
    std::vector<uint8_t> sent(1 << 20);
    for (size_t i = 0; i < sent.size(); ++i) {
      sent[i] = static_cast<uint8_t>((i * 2654435761u + ++transfers) >> 24);
    }
    std::vector<uint8_t> got(sent.size());
    size_t out = 0;
    size_t in = 0;
    EXPECT_TRUE(run_until([&] {
      const int64_t taken = lyre_send(sender, sent.data() + out, sent.size() - out);
      if (taken > 0) out += static_cast<size_t>(taken);
      const int64_t came = lyre_recv(receiver, got.data() + in, got.size() - in);
      if (came > 0) in += static_cast<size_t>(came);
      return in == got.size();
    })) << pair.log_tail(0);
    EXPECT_TRUE(sent == got);
  }

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
  Context from;
  Context to;
  lyre_session* sender = nullptr;
  lyre_session* receiver = nullptr;
  uint32_t transfers = 0;
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
    expect_transfer();
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
    expect_transfer();
  }
  ASSERT_TRUE(pair.is_running(1)) << pair.log_tail(1);
}

}  // namespace
}  // namespace lyre::test
