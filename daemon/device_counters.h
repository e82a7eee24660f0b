#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "stack/base/nanos.h"
#include "stack/channel/stats.h"

namespace lyre {

/// A device whose counters are shown.
struct CountedDevice {
  std::function<uint64_t()> rx_missed;  ///< may sleep
  channel::StatCounter* shown;          ///< in the stats segment
};

/// Copies what devices count into the stats segment. Asking a device may take long, so the workers
/// never do.
/// Thread: the control thread. Owner: borrows all that it is given.
class DeviceCounters {
 public:
  explicit DeviceCounters(std::vector<CountedDevice> devices) : devices_(std::move(devices)) {}

  /// Asks all devices, unless it did so less than kDeviceCountersPeriod ago.
  void look(Nanos now);

 private:
  std::vector<CountedDevice> devices_;
  Nanos due_{0};
};

}  // namespace lyre
