#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>

#include "libclient/include/lyre/lyre.h"
#include "tests/support/daemon_pair.h"

// A daemon that comes back on a wire that its peer remembers.
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
                             .arena_bytes = 0};
  lyre_context* context = nullptr;
  EXPECT_EQ(lyre_context_open(&options, &context), 0) << lyre_last_error();
  return Context(context);
}

/// Connects `from` to a listener of `to`, the host 1.
bool connect(const DaemonPair& pair, lyre_context* from, lyre_context* to) {
  lyre_addr address{};
  lyre_listener* listener = nullptr;
  lyre_session* session = nullptr;
  EXPECT_EQ(lyre_addr_parse((pair.address(1) + ":5000").c_str(), &address), 0);
  EXPECT_EQ(lyre_listen(to, &address, 16, &listener), 0) << lyre_last_error();
  EXPECT_EQ(lyre_connect(from, nullptr, &address, &session), 0) << lyre_last_error();
  const auto end = Clock::now() + std::chrono::seconds(20);
  while (lyre_state(session) == LYRE_CONNECTING && Clock::now() < end) {
    lyre_poll(from, 10);
    lyre_poll(to, 0);
  }
  return lyre_state(session) == LYRE_OPEN;
}

// Its MAC is another one, and the link comes long after it was announced.
TEST(Restart, OnAWireThatIsDownIsHeardOfWhenItComesUp) {
  DaemonPair pair(std::getenv("LYRE_TEST_LYRED"));
  const Context from = open(pair, 0);
  EXPECT_TRUE(connect(pair, from.get(), open(pair, 1).get()));
  pair.kill(1);
  ::kill(pair.pid(0), SIGSTOP);
  pair.restart(1, DaemonPair::Wire::kAny);
  ::sleep(3);
  ::kill(pair.pid(0), SIGCONT);
  EXPECT_TRUE(connect(pair, from.get(), open(pair, 1).get()))
      << pair.log_tail(0) << pair.log_tail(1);
}

}  // namespace
}  // namespace lyre::test
