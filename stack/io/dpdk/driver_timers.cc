#include "stack/io/dpdk/driver_timers.h"

#include <rte_timer.h>

#include "stack/io/dpdk/interrupt_thread.h"

namespace lyre::io::dpdk {

bool DriverTimers::look(Nanos now) {
  if (clock_.look(now) > kPauseMin) {
    let_interrupt_thread_finish();
    return false;
  }
  rte_timer_manage();
  return true;
}

}  // namespace lyre::io::dpdk
