#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libclient/include/lyre/lyre.h"
#include "tests/support/daemon_pair.h"

namespace lyre::test {

struct CloseContext {
  void operator()(lyre_context* context) const { lyre_context_close(context); }
};
using Context = std::unique_ptr<lyre_context, CloseContext>;

inline constexpr size_t kMiB = 1 << 20;

/// Attaches by the library. nullptr: refused; lyre_last_error() says why.
Context attach(const std::string& socket, const char* label, size_t arena_bytes = kMiB);

/// Lines of a daemon's log that contain `part`, and behind its begin `rest`.
size_t log_lines_with(const DaemonPair& daemons, int host, const std::string& part,
                      const std::string& rest = "");

/// Correct clients with a session between the two hosts of a DaemonPair, which transfer while
/// others attack. They must not stop, and no byte may change: nothing is asserted of their speed.
/// Thread: one.
class HonestPair {
 public:
  explicit HonestPair(DaemonPair& daemons);

  /// Called over and over while the pair waits: an attack that goes on in this thread.
  std::function<void()> beside = [] {};

  /// Sends a MiB each way, and expects that all of it arrives in order.
  void expect_transfer();
  /// Sends a word there and back, one after the other.
  void expect_ping_pong(int rounds);
  /// Opens and closes a further session.
  void expect_open();

 private:
  struct Way {
    lyre_session* from;
    lyre_session* to;
    std::vector<uint8_t> sent;
    std::vector<uint8_t> got;
    size_t out = 0;
    size_t in = 0;
  };
  Way way(lyre_session* from, lyre_session* to, size_t bytes);
  void expect_arrival(std::vector<Way> ways);
  template <typename IsDone>
  bool run_until(IsDone is_done);

  DaemonPair& daemons_;
  Context from_;
  Context to_;
  lyre_listener* listener_ = nullptr;
  lyre_session* sender_ = nullptr;
  lyre_session* receiver_ = nullptr;
  uint32_t pattern_ = 0;
};

}  // namespace lyre::test
