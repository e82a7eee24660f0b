#include "stack/io/dpdk/interrupt_thread.h"

#include <rte_alarm.h>
#include <unistd.h>

#include <atomic>

namespace lyre::io::dpdk {

bool let_interrupt_thread_finish() {
  constexpr int kTriesMax = 1000;
  constexpr useconds_t kTryUs = 100;
  std::atomic<bool> is_done{false};
  const auto note = [](void* flag) {
    static_cast<std::atomic<bool>*>(flag)->store(true);  // release: pairs with the load below
  };
  const bool is_set = rte_eal_alarm_set(1, note, &is_done) == 0;
  for (int i = 0; is_set && i < kTriesMax && !is_done.load(); ++i) usleep(kTryUs);
  rte_eal_alarm_cancel(note, &is_done);  // also one that was set without a timer
  return !is_set || is_done.load();
}

}  // namespace lyre::io::dpdk
