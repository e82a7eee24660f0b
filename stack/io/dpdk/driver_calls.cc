#include "stack/io/dpdk/driver_calls.h"

#include <dlfcn.h>
#include <rte_cycles.h>
#include <rte_interrupts.h>
#include <sched.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <vector>

namespace lyre::io::dpdk {
namespace {

struct AllCalls {
  std::mutex mutex;
  std::vector<const std::atomic<bool>*> flags;
};

/// Never destroyed: DPDK's interrupt thread runs until the process ends.
AllCalls& all_calls() {
  static auto* const all = new AllCalls;
  return *all;
}

void delay(unsigned us) {
  rte_delay_us_block(us);
  if (rte_thread_is_intr() != 0) DriverCalls::await_none();
}

}  // namespace

DriverCalls::DriverCalls() {
  AllCalls& all = all_calls();
  const std::lock_guard lock(all.mutex);
  all.flags.push_back(&is_inside_);
}

DriverCalls::~DriverCalls() {
  AllCalls& all = all_calls();
  const std::lock_guard lock(all.mutex);
  std::erase(all.flags, &is_inside_);
}

void DriverCalls::await_none() {
  AllCalls& all = all_calls();
  const std::lock_guard lock(all.mutex);
  // Release: the driver has marked the port before. Partner: waits().
  waits_.fetch_add(1, std::memory_order_release);
  // Full fence: orders the driver's state and waits_, which are written, before the flags. Partner:
  // enter().
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const std::atomic<bool>* is_inside : all.flags) {
    while (is_inside->load(std::memory_order_acquire)) sched_yield();
  }
}

void DriverCalls::await_none_in_delays() { rte_delay_us_callback_register(delay); }

}  // namespace lyre::io::dpdk

/// Takes the place of DPDK's function of this name, for drivers as well: the only call out of the
/// memif driver after it has marked a port as disconnected, and before it frees the port's memory.
extern "C" int rte_intr_callback_unregister(const rte_intr_handle* handle,
                                            rte_intr_callback_fn callback, void* argument) {
  using Function = int (*)(const rte_intr_handle*, rte_intr_callback_fn, void*);
  static const auto real =
      reinterpret_cast<Function>(dlsym(RTLD_NEXT, "rte_intr_callback_unregister"));
  lyre::io::dpdk::DriverCalls::await_none();
  return real == nullptr ? -ENOSYS : real(handle, callback, argument);
}
