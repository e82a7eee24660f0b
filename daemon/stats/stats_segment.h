#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "daemon/base/owned_fd.h"
#include "daemon/base/shared_memory.h"
#include "stack/channel/control.h"
#include "stack/channel/stats.h"

namespace lyre {

struct StatsOptions {
  std::string daemon_name;
  std::string idle_policy;
  uint32_t worker_count = 0;
  uint32_t session_rows = 0;    ///< a worker
  uint32_t client_rows = 0;     ///< a worker
  uint32_t neighbour_rows = 0;  ///< a worker
  uint32_t route_rows = 0;
  uint32_t trace_rings = 0;  ///< a worker
  uint32_t ended_rows = 0;   ///< a worker
  uint32_t port_count = 0;
  bool has_hugepages = false;
  int64_t started_unix_ns = 0;
  int64_t unix_offset_ns = 0;  ///< as in channel::StatsHeader
  bool is_domain = false;      ///< counters are not shown
};

/// The memory that tools read. Thread: rows and counters have the writers that channel/stats.h
/// names; the rest is the control thread's.
class StatsSegment {
 public:
  /// Fails: no memory.
  static Result<StatsSegment> create(const StatsOptions& options);

  channel::StatsHeader& header() const;
  channel::WorkerStats& worker(uint32_t index) const;
  std::span<channel::SessionRow> rows(uint32_t worker) const;
  std::span<channel::ClientRow> clients(uint32_t worker) const;
  channel::StatsPort& port(uint32_t index) const;
  /// Of each port.
  std::span<channel::QueueStats> queues(uint32_t worker) const;
  std::span<channel::NeighbourRow> neighbours(uint32_t worker) const;
  std::span<channel::RouteRow> routes() const;
  std::span<channel::TraceRing> traces(uint32_t worker) const;
  std::span<channel::EndedRow> ended(uint32_t worker) const;

  /// The descriptor for tools. It cannot be made writable.
  int reader_fd() const { return reader_.get(); }
  uint64_t bytes() const { return memory_.bytes(); }

 private:
  /// The part of one worker of a part that has `count` items for each.
  template <typename Item>
  std::span<Item> part(uint64_t offset, uint64_t worker, uint64_t count) const;

  SharedMemory memory_;
  OwnedFd reader_;
};

}  // namespace lyre
