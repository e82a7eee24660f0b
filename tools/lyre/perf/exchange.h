#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tools/lyre/perf/protocol.h"
#include "tools/lyre/perf/stream.h"

namespace lyre::perf {

enum class Side { kClient, kServer };

/// The result of an exchange at one side. The client of a ping-pong has `round_trips_ns`.
struct Outcome {
  Totals sent;
  Totals received;
  Totals peer_sent;
  Totals peer_received;
  std::vector<int64_t> round_trips_ns;

  /// The pattern and the number of bytes were right on both sides.
  bool is_intact() const {
    return received.is_intact && peer_received.is_intact && received.bytes == peer_sent.bytes &&
           sent.bytes == peer_received.bytes && are_hashes_equal();
  }
  bool are_hashes_equal() const {
    return sent.hash == peer_received.hash && received.hash == peer_sent.hash;
  }
};

/// The work of one side so far.
struct Progress {
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
  uint64_t round_trips = 0;  ///< of a ping-pong client
};

/// The test after both sides have agreed on a plan. Fails: step() throws StreamError.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Does bounded work. False when there was none.
  virtual bool step(Stream& stream, int64_t now_ns) = 0;
  /// When step() has work again without an event of the stream. 0: with an event only.
  virtual int64_t due_ns() const { return 0; }
  virtual bool is_done() const = 0;
  virtual Progress progress() const = 0;
  virtual const Outcome& outcome() const = 0;
};

std::unique_ptr<Exchange> make_bulk(const Plan& plan, Side side);
std::unique_ptr<Exchange> make_ping_pong(const Plan& plan, Side side);

inline std::unique_ptr<Exchange> make_exchange(const Plan& plan, Side side) {
  return plan.kind == Kind::kBulk ? make_bulk(plan, side) : make_ping_pong(plan, side);
}

/// The monotonic clock.
int64_t now_ns();

}  // namespace lyre::perf
