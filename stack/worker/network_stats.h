#pragma once

#include <cstdint>

#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// The part of the stats segment that shows ports, neighbours and routes.
/// Thread: the worker.
class NetworkStats {
 public:
  explicit NetworkStats(WorkerState& state) : state_(state) {}

  /// Looks at some neighbours and writes their rows. Returns true when a pass over all is complete,
  /// and the next call begins another one.
  bool write_some_neighbours();
  /// What the queue pair of each port counted. Returns the sum. The control thread reads the
  /// counters of devices.
  io::IoCounters write_queues();
  /// When they have changed.
  void write_routes();

 private:
  void write_neighbour(uint8_t port, const link::Neighbour& shown);

  WorkerState& state_;
  uint8_t port_ = 0;           ///< where the pass is
  uint32_t index_ = 0;         ///< in the table of that port
  uint32_t row_ = 0;           ///< the next to write
  uint32_t rows_written_ = 0;  ///< of the pass before
  uint32_t routes_seen_ = UINT32_MAX;
};

}  // namespace lyre::worker
