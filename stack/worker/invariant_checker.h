#pragma once

#include <cstdint>

#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// What must hold between two turns, for the simulator and the fuzzers.
/// Thread: the worker.
class InvariantChecker {
 public:
  explicit InvariantChecker(WorkerState& state) : state_(state) {}

  /// Between the tables, and in `connections` of the connections, the next ones at each call.
  void check(uint32_t connections);

 private:
  void check_session(uint32_t conn) const;
  void check_places() const;
  void check_sends() const;
  void check_gauges() const;

  WorkerState& state_;
  uint32_t cursor_ = 0;
};

}  // namespace lyre::worker
