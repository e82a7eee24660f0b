#pragma once

#include "stack/base/look_clock.h"
#include "stack/base/nanos.h"

namespace lyre::io::dpdk {

/// Runs the timers that drivers set (rte_timer), such as ENA's health checks. ENA compares the time
/// since the device's last keep-alive with a limit. After a pause of this process, or of its
/// machine, that event is queued and the interrupt thread has not read it: the check would report a
/// timeout.
/// Thread: the control thread.
class DriverTimers {
 public:
  /// More than the period of looks, less than the shortest timeout of a driver (ENA: 3 s).
  static constexpr Nanos kPauseMin = seconds(1);

  /// Returns false after such a pause: the interrupt thread reads what is queued, and the timers
  /// run at the next look, also where that one is late: they must run where each look is.
  bool look(Nanos now);

 private:
  LookClock clock_;
  bool has_skipped_ = false;  ///< the last look ran no timers
};

}  // namespace lyre::io::dpdk
