#pragma once

#include <rte_ethdev.h>

#include <atomic>
#include <cstdint>

#include "stack/io/backend.h"

namespace lyre::io::dpdk {

/// Follows what a driver reports of its device: that it must be reset, recovers by itself, or is
/// gone.
/// Thread: events come on DPDK's interrupt thread; state() may be read on any; the rest belongs to
/// the control thread.
class DeviceEvents {
 public:
  DeviceEvents() = default;
  ~DeviceEvents() { ignore(); }
  DeviceEvents(const DeviceEvents&) = delete;
  DeviceEvents& operator=(const DeviceEvents&) = delete;

  /// A driver without such events is taken to be running.
  void listen(uint16_t port_id);
  void ignore();

  // Relaxed: a lone value; what depends on it is done on the control thread.
  PortState state() const { return state_.load(std::memory_order_relaxed); }
  void on_event(rte_eth_event_type event);
  /// The reset that was asked for is done.
  void on_reset_done() { change(PortState::kResetting, PortState::kRunning); }

 private:
  void change(PortState from, PortState to);

  std::atomic<PortState> state_{PortState::kRunning};
  bool is_listening_ = false;
  uint16_t port_id_ = 0;
};

}  // namespace lyre::io::dpdk
