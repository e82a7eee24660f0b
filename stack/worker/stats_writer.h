#pragma once

#include <cstddef>
#include <cstdint>

#include "stack/base/nanos.h"
#include "stack/channel/stats.h"
#include "stack/worker/network_stats.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// What tools see in the stats segment. A pass over all session rows is spread over turns.
/// Thread: the worker.
class StatsWriter {
 public:
  explicit StatsWriter(WorkerState& state) : state_(state), network_(state) {}

  /// After a turn that did so much work: writes some rows when a pass is due.
  void after_turn(size_t work);
  /// kNever when nothing changed since the last pass.
  Nanos next_deadline() const { return is_in_pass_ || has_changed_ ? due_ : kNever; }
  /// Listeners have the rows behind those of the connections; one that was closed clears its row.
  void write_listener_row(uint32_t index);
  /// The context is free.
  void clear_client(uint32_t context) {
    state_.stats.write_client(context, nullptr, domain_of(context));
  }

 private:
  void write_some();
  void write_gauges();
  void write_port_counters();
  void write_row(uint32_t conn);
  uint32_t domain_of(uint32_t context) const;
  void write_some_clients();
  void write_client(uint32_t context);
  void add_memory(channel::ClientView& view, const Command& attached) const;
  void add_places(channel::ClientView& view, const Command& attached) const;

  WorkerState& state_;
  NetworkStats network_;
  uint32_t cursor_ = 0;         ///< the next row of the pass
  uint32_t client_cursor_ = 0;  ///< the next of the contexts in use, after all rows
  Nanos due_{0};                ///< when the next pass begins
  bool is_in_pass_ = false;
  bool has_changed_ = false;  ///< since the last pass began
};

}  // namespace lyre::worker
