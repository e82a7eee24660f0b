#pragma once

#include <rte_ethdev.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "stack/io/backend.h"

namespace lyre::io::dpdk {

/// The state of a device: what its driver and its bus report, and what the control thread finds.
/// Thread: events come on DPDK's interrupt thread; state() may be read on any; the rest belongs to
/// the control thread.
class DeviceEvents {
 public:
  DeviceEvents() = default;
  ~DeviceEvents() { ignore(); }
  DeviceEvents(const DeviceEvents&) = delete;
  DeviceEvents& operator=(const DeviceEvents&) = delete;

  /// From now on the device is running, until something else is reported. `device`: DPDK's name of
  /// it.
  void listen(uint16_t port_id, const std::string& device);
  void ignore();

  // Relaxed: a lone value; what depends on it is done on the control thread.
  PortState state() const { return state_.load(std::memory_order_relaxed); }
  void on_event(rte_eth_event_type event);
  /// It was reset as it asked for, or it was started again because it freed nothing.
  void on_restarted() {
    change(PortState::kResetting, PortState::kRunning);
    change(PortState::kDraining, PortState::kRunning);
  }
  /// The device was taken away, or cannot be used until it is opened again.
  void on_away() { state_.store(PortState::kAway, std::memory_order_relaxed); }
  /// It frees nothing.
  void on_stuck() { change(PortState::kRunning, PortState::kDraining); }

 private:
  void change(PortState from, PortState to);

  std::atomic<PortState> state_{PortState::kRunning};
  bool is_listening_ = false;
  uint16_t port_id_ = 0;
  std::string device_;
};

}  // namespace lyre::io::dpdk
