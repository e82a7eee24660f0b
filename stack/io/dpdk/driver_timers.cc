#include "stack/io/dpdk/driver_timers.h"

#include <rte_timer.h>

#include <utility>

#include "stack/io/dpdk/interrupt_thread.h"

namespace lyre::io::dpdk {

bool DriverTimers::look(Nanos now) {
  const bool is_late = clock_.look(now) > kPauseMin;
  const bool has_skipped = std::exchange(has_skipped_, false);
  if (is_late && !has_skipped) {
    has_skipped_ = true;
    let_interrupt_thread_finish();
    return false;
  }
  rte_timer_manage();
  return true;
}

}  // namespace lyre::io::dpdk
