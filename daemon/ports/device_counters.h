#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "stack/base/nanos.h"
#include "stack/channel/stats.h"
#include "stack/io/backend.h"

namespace lyre {

/// A device whose counters are shown.
struct CountedDevice {
  std::function<uint64_t()> rx_missed;                        ///< may sleep
  std::function<std::vector<io::DeviceCounter>()> of_driver;  ///< may sleep
  channel::StatsPort* shown;                                  ///< in the stats segment
};

/// Copies the counters of devices into the stats segment. Reading them may take long, so workers do
/// not.
/// Thread: the control thread. Owner: borrows all that it is given.
class DeviceCounters {
 public:
  explicit DeviceCounters(std::vector<CountedDevice> devices) : devices_(std::move(devices)) {}

  /// Reads all devices, at most once in kDeviceCountersPeriod.
  void look(Nanos now);

 private:
  std::vector<CountedDevice> devices_;
  Nanos due_{0};
};

}  // namespace lyre
