#pragma once

#include <atomic>

namespace lyre::io::dpdk {

/// A thread's calls into a driver that frees memory of the device in another thread. When a memif
/// peer leaves, the memif driver marks the port as disconnected, and at once unmaps the rings, in
/// DPDK's interrupt thread (22.11): a burst that began before accesses what is gone, or writes the
/// position of the old ring over that of the next one. The interrupt thread therefore waits between
/// both steps until no call that began before is under way.
/// Thread: enter() and leave() one, the other calls any.
class DriverCalls {
 public:
  DriverCalls();
  ~DriverCalls();
  DriverCalls(const DriverCalls&) = delete;
  DriverCalls& operator=(const DriverCalls&) = delete;

  void enter() {
    is_inside_.store(true, std::memory_order_relaxed);
    // Full fence: orders the flag before the driver's look at its state. Partner: await_none().
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  /// Release: pairs with await_none(). The driver's last access to the device comes before.
  void leave() { is_inside_.store(false, std::memory_order_release); }

  /// Returns when each call of any thread that had begun is over. REQUIRES: the caller is in none.
  static void await_none();

 private:
  alignas(64) std::atomic<bool> is_inside_{false};
};

/// Makes one call: driver_call(calls, [&] { return rte_eth_rx_burst(...); }).
template <typename Call>
auto driver_call(DriverCalls& calls, Call&& call) {
  calls.enter();
  const auto result = call();
  calls.leave();
  return result;
}

}  // namespace lyre::io::dpdk
