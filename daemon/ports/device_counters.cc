#include "daemon/ports/device_counters.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "daemon/base/daemon_limits.h"
#include "daemon/protocol/control_message.h"

namespace lyre {
namespace {

/// The slot of this name, or a new one; nullptr: all are taken.
channel::DeviceCounterView* slot_of(channel::StatsPort& port, const std::string& name) {
  const uint32_t count = port.device_counter_count.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) {
    if (name == port.device_counters[i].name) return &port.device_counters[i];
  }
  if (count == channel::kDeviceCountersMax) return nullptr;
  copy_text(port.device_counters[count].name, name);
  // Release: pairs with the acquire of readers, who then find the name.
  port.device_counter_count.store(count + 1, std::memory_order_release);
  return &port.device_counters[count];
}

}  // namespace

/// A counter that is not reported any more is zero: its device was opened again.
void DeviceCounters::show(const std::vector<io::DeviceCounter>& counters,
                          channel::StatsPort& port) {
  std::vector<uint64_t> values(channel::kDeviceCountersMax);
  for (const io::DeviceCounter& counter : counters) {
    const channel::DeviceCounterView* slot = slot_of(port, counter.name);
    if (slot != nullptr) {
      values[static_cast<size_t>(slot - port.device_counters)] = counter.value;
    } else if (!std::exchange(was_told_of_places_, true)) {
      spdlog::warn("port {}: its driver has more than {} counters: {} and others are not shown",
                   port.name, channel::kDeviceCountersMax, counter.name);
    }
  }
  const uint32_t count = port.device_counter_count.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) port.device_counters[i].value.set(values[i]);
}

void DeviceCounters::look(Nanos now) {
  if (now < due_) return;
  due_ = now + kDeviceCountersPeriod;
  for (const CountedDevice& device : devices_) {
    device.shown->rx_missed.set(device.rx_missed());
    show(device.of_driver(), *device.shown);
  }
}

}  // namespace lyre
