#pragma once

namespace lyre::io::dpdk {

/// Calls `work` on DPDK's interrupt thread, which closes and opens ports by itself: the function of
/// a NIC on the VMbus. Waits a tenth of a second for that thread, and for `work` as long as it
/// takes. Without such a thread `work` runs on this one. Thread: any but that one.
/// Returns false when it has not run: that thread is in a callback that waits for something.
bool run_on_interrupt_thread(void (*work)(void*), void* argument);

template <typename Work>
bool on_interrupt_thread(Work work) {
  return run_on_interrupt_thread([](void* each) { (*static_cast<Work*>(each))(); }, &work);
}

/// Waits until DPDK's interrupt thread has finished its current callback, for a tenth of a second
/// at most. When a memif peer leaves, that thread frees the connection; a port that is closed
/// meanwhile frees it twice. Thread: any but that one.
/// Returns false when it has not: its callback waits for something. True without such a thread.
bool let_interrupt_thread_finish();

}  // namespace lyre::io::dpdk
