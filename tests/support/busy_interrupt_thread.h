#pragma once

#include <rte_alarm.h>
#include <unistd.h>

#include <atomic>

#include "stack/io/dpdk/interrupt_thread.h"

namespace lyre::test {

/// Keeps DPDK's interrupt thread busy while it lives.
class BusyInterruptThread {
 public:
  BusyInterruptThread() {
    is_set_ = rte_eal_alarm_set(1, wait, this) == 0;
    while (is_set_ && !is_running_) ::usleep(100);
  }
  ~BusyInterruptThread() {
    may_end_ = true;
    while (!io::dpdk::let_interrupt_thread_finish()) continue;
  }
  bool is_set() const { return is_set_; }

 private:
  static void wait(void* argument) {
    auto& own = *static_cast<BusyInterruptThread*>(argument);
    own.is_running_ = true;
    while (!own.may_end_) ::usleep(100);
  }
  bool is_set_ = false;
  std::atomic<bool> is_running_{false};
  std::atomic<bool> may_end_{false};
};

}  // namespace lyre::test
