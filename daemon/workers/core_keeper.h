#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "stack/base/nanos.h"
#include "stack/channel/stats.h"

namespace lyre {

/// A worker's thread, and the core to which it is pinned.
struct KeptCore {
  uint32_t core = 0;
  std::function<bool()> is_away;                   ///< it left by itself and returns (BusyCore)
  std::function<std::vector<uint32_t>()> allowed;  ///< where it may run; empty: not known
  std::function<int()> pin;                        ///< to `core` only; returns an error's number
  channel::StatCounter* is_core_lost = nullptr;    ///< gauge
};

/// Keeps workers on their cores when the cpuset of the daemon's cgroup changes: kubelet's static
/// CPU manager changes it, and so does AllowedCPUs= of a slice. Kernels before 6.2 then let each
/// thread run on the whole cpuset; later ones do so where the cpuset has lost the thread's core.
/// Thread: the control thread. Owner: borrows threads and gauges.
class CoreKeeper {
 public:
  explicit CoreKeeper(std::vector<KeptCore> cores);

  /// Looks at all workers, at most once in kCoresPeriod. Pins again those that may run elsewhere.
  /// Logs a core that is lost, once for each set of others, and one that is back, and sets the
  /// gauge afterwards.
  void look(Nanos now);

 private:
  void look_at(uint32_t worker);
  void on_lost(uint32_t worker, const std::vector<uint32_t>& allowed, int error);
  void on_own_core(uint32_t worker);

  const std::vector<KeptCore> cores_;
  std::vector<std::vector<uint32_t>> told_;  ///< by worker, where it runs; empty: on its core
  Nanos due_{0};
};

}  // namespace lyre
