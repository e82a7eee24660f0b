#include "daemon/device_counters.h"

#include "daemon/daemon_limits.h"

namespace lyre {

void DeviceCounters::look(Nanos now) {
  if (now < due_) return;
  due_ = now + kDeviceCountersPeriod;
  for (const CountedDevice& device : devices_) device.shown->set(device.rx_missed());
}

}  // namespace lyre
