#pragma once

#include <atomic>
#include <cstdint>

#include "stack/base/memory_model.h"

namespace lyre::io::dpdk {

/// A thread's calls into a driver whose part in DPDK's interrupt thread uses the same rings. When a
/// memif peer leaves, the memif driver marks the port as disconnected, and at once unmaps the rings
/// there (22.11): a burst that began before accesses what is gone, or writes the position of the
/// old ring over that of the next one. virtio marks the port as stopped, waits 1 ms, and sends
/// (DriverQuirks::announces_itself): a worker that is preempted in a burst for longer works on the
/// ring at the same time. The interrupt thread therefore waits between both steps until no call
/// that began before is under way.
/// REQUIRES: a call takes no lock that the interrupt thread holds while it waits.
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
  /// From now on each delay of a driver (rte_delay_us_block()) on DPDK's interrupt thread ends with
  /// await_none(): virtio's driver calls nothing else between both steps. It adds the rest of a
  /// burst to such a delay, also of other drivers. Delays on other threads stay as they are.
  static void await_none_in_delays();
  /// How often await_none() was called. In a call: what follows another number is no device of
  /// before. Acquire: who sees a count sees the driver's state of that time or a later one, not the
  /// link of the device of before. Partner: the release of await_none().
  static uint64_t waits() { return waits_.load(std::memory_order_acquire); }

 private:
  inline static std::atomic<uint64_t> waits_{1};
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

/// The calls of a queue into its driver. Of memif: a burst reads where the rings are, and then
/// whether the port is connected; memif_connect() maps the rings, and then marks the port as
/// connected, in DPDK's interrupt thread and without a barrier (22.11 to 26.07). A burst that
/// overlaps with it would use a ring at address 0. No burst is therefore made before the link was
/// seen up, which the driver stores last, after each disconnection anew. On a CPU that reorders
/// stores the rings may become visible after the link: the next call makes the first burst.
/// Thread: one.
class ConnectedCalls {
 public:
  explicit ConnectedCalls(bool keeps_memory_order = kKeepsMemoryOrder)
      : keeps_memory_order_(keeps_memory_order) {}

  /// call(), or 0 in its place while the port is not connected. `is_up`: whether the driver has a
  /// link.
  template <typename IsUp, typename Call>
  uint16_t call(const IsUp& is_up, const Call& call) {
    return driver_call(calls_, [&] { return is_connected(is_up) ? call() : uint16_t{0}; });
  }
  /// call(), of a driver whose rings are there whether or not the link is up.
  template <typename Call>
  uint16_t call(const Call& call) {
    return driver_call(calls_, call);
  }

 private:
  template <typename IsUp>
  bool is_connected(const IsUp& is_up) {
    const uint64_t waits = DriverCalls::waits();
    if (waits == connected_at_) [[likely]] {
      return true;
    }
    if (!is_up()) return false;
    connected_at_ = waits;
    return keeps_memory_order_;
  }

  DriverCalls calls_;
  uint64_t connected_at_ = 0;  ///< DriverCalls::waits() when the link was seen up
  const bool keeps_memory_order_;
};

}  // namespace lyre::io::dpdk
