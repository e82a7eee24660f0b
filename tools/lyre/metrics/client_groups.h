#pragma once

#include <cstdint>
#include <map>

#include "tools/lyre/metrics/metric_places.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {

/// The clients of one place. Of the ratio it has the largest one: a sum would hide a client among
/// others of its label, and a worker among others.
struct ClientGroup {
  uint64_t sessions = 0;
  uint64_t unfinished_sends = 0;
  uint64_t slots_held = 0;
  uint64_t slots_lent = 0;
  double limit_ratio = 0;
};

/// Adds clients up by uid and label: a label stays when a process ends, and a pid does not.
/// Memory: bounded by kMetricNamesMax. Thread: one.
class ClientGroups {
 public:
  /// `now_ns`: of a clock that is never stepped.
  void look(const Snapshot& daemon, int64_t now_ns);
  /// Those that have clients now.
  const std::map<MetricPlace, ClientGroup>& groups() const { return groups_; }

 private:
  MetricPlaces places_;
  std::map<MetricPlace, ClientGroup> groups_;
};

}  // namespace lyre::tools
