#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "daemon/base/daemon_limits.h"
#include "stack/base/nanos.h"

namespace lyre {

/// Checks that all workers make turns. Thread: the control thread.
class Progress {
 public:
  using Turns = std::function<uint64_t(uint32_t worker)>;

  /// `turns`: the number of turns of a worker.
  Progress(uint32_t worker_count, Turns turns, Nanos now);

  /// True when every worker has made a turn since the last look.
  bool look(Nanos now);
  /// True when not all of them have for so long that one must hang: an idle one makes a turn within
  /// kSleepMax. REQUIRES: look() is called every kHousekeepingPeriod.
  bool is_hanging(Nanos now) const;
  /// True when that lasts for kEndAfter. Looks are counted, because this process may have been
  /// stopped for a while.
  bool must_end() const { return vain_looks_ * kHousekeepingPeriod.value >= kEndAfter.value; }

 private:
  Turns turns_;
  std::vector<uint64_t> seen_;
  Nanos seen_at_;
  int64_t vain_looks_ = 0;  ///< in a row
};

/// Limits the rate of a warning about a counter.
class RareWarning {
 public:
  explicit RareWarning(Nanos period) : period_(period) {}
  /// True when `count` has changed since the last warning and `period` is over.
  bool is_due(uint64_t count, Nanos now);

 private:
  const Nanos period_;
  uint64_t told_ = 0;
  Nanos told_at_{0};
};

}  // namespace lyre
