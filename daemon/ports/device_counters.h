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

/// Copies the counters of devices into the stats segment. A name has its place from its first
/// counter that is not zero until the daemon ends; one without a place is logged. Reading them may
/// take long, so workers do not. Thread: the control thread. Owner: borrows all that it is given.
class DeviceCounters {
 public:
  explicit DeviceCounters(std::vector<CountedDevice> devices) : devices_(std::move(devices)) {}

  /// Reads all devices, at most once in kDeviceCountersPeriod.
  void look(Nanos now);

 private:
  void show(const std::vector<io::DeviceCounter>& counters, channel::StatsPort& port);

  std::vector<CountedDevice> devices_;
  bool was_told_of_places_ = false;  ///< the warning is written once
  Nanos due_{0};
};

}  // namespace lyre
