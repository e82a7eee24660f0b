#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/stats/stats_segment.h"

namespace lyre {

/// The stats segment of one of several domains: its sessions, its clients and its ports. Counters
/// of workers are those of all domains together and are not shown. Workers write the rows.
/// Thread: the control thread.
class DomainStats {
 public:
  /// `options`: of the daemon's own segment, `all`. `ports`: bit n is port n of it.
  /// Fails: no memory.
  static Result<DomainStats> make(const StatsSegment& all, StatsOptions options, uint32_t ports);

  std::span<channel::SessionRow> rows(uint32_t worker) const { return segment_.rows(worker); }
  std::span<channel::ClientRow> clients(uint32_t worker) const { return segment_.clients(worker); }
  /// Takes over what changed of the ports, and shows so many clients: those that are attached, and
  /// those that attached to this process.
  void refresh(const StatsSegment& all, uint32_t clients, uint64_t clients_total) const;
  int reader_fd() const { return segment_.reader_fd(); }
  uint64_t bytes() const { return segment_.bytes(); }

 private:
  StatsSegment segment_;
  std::vector<uint32_t> ports_;  ///< indices in the daemon's segment
};

}  // namespace lyre
