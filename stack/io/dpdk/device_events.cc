#include "stack/io/dpdk/device_events.h"

#include <rte_dev.h>
#include <unistd.h>

#include <cerrno>

namespace lyre::io::dpdk {
namespace {

constexpr rte_eth_event_type kEvents[] = {
    RTE_ETH_EVENT_INTR_RESET, RTE_ETH_EVENT_INTR_RMV, RTE_ETH_EVENT_ERR_RECOVERING,
    RTE_ETH_EVENT_RECOVERY_SUCCESS, RTE_ETH_EVENT_RECOVERY_FAILED};

int forward(uint16_t, rte_eth_event_type event, void* events, void*) {
  static_cast<DeviceEvents*>(events)->on_event(event);
  return 0;
}

/// An event of the bus: VFIO requests the device before the kernel removes it.
void forward_removal(const char*, rte_dev_event_type event, void* events) {
  if (event == RTE_DEV_EVENT_REMOVE) static_cast<DeviceEvents*>(events)->on_away();
}

/// DPDK refuses to forget a callback that runs at this moment on its interrupt thread. Ours return
/// at once.
template <typename Forget>
void repeat_while_busy(Forget forget) {
  constexpr int kTriesMax = 1000;
  constexpr useconds_t kTryUs = 100;
  for (int i = 0; i < kTriesMax && forget() == -EAGAIN; ++i) usleep(kTryUs);
}

}  // namespace

void DeviceEvents::listen(uint16_t port_id, const std::string& device) {
  port_id_ = port_id;
  device_ = device;
  is_listening_ = true;
  state_.store(PortState::kRunning, std::memory_order_relaxed);
  rte_dev_event_callback_register(device_.c_str(), forward_removal, this);
  for (const rte_eth_event_type event : kEvents) {
    rte_eth_dev_callback_register(port_id, event, forward, this);
  }
}

void DeviceEvents::ignore() {
  if (!is_listening_) return;
  is_listening_ = false;
  repeat_while_busy(
      [&] { return rte_dev_event_callback_unregister(device_.c_str(), forward_removal, this); });
  for (const rte_eth_event_type event : kEvents) {
    repeat_while_busy(
        [&] { return rte_eth_dev_callback_unregister(port_id_, event, forward, this); });
  }
}

void DeviceEvents::on_event(rte_eth_event_type event) {
  switch (event) {
    case RTE_ETH_EVENT_INTR_RESET:
      return change(PortState::kRunning, PortState::kResetting);
    case RTE_ETH_EVENT_ERR_RECOVERING:
      return change(PortState::kRunning, PortState::kRecovering);
    case RTE_ETH_EVENT_RECOVERY_SUCCESS:
      return change(PortState::kRecovering, PortState::kRunning);
    case RTE_ETH_EVENT_RECOVERY_FAILED:
      return change(PortState::kRecovering, PortState::kResetting);
    case RTE_ETH_EVENT_INTR_RMV:
      return on_away();
    default:
      return;
  }
}

void DeviceEvents::change(PortState from, PortState to) {
  state_.compare_exchange_strong(from, to, std::memory_order_relaxed);
}

}  // namespace lyre::io::dpdk
