#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stack/io/backend.h"

namespace lyre::io::dpdk {

/// The counters that a driver has besides those of every driver (rte_eth_xstats).
/// Thread: the control thread.
class ExtendedStats {
 public:
  /// The device was opened: its counters may be others than before.
  void open(uint16_t port_id);
  void close() { names_.clear(); }
  /// Those that are not zero; none while no device is open. May sleep until the device answers.
  std::vector<DeviceCounter> read() const;

 private:
  uint16_t port_id_ = 0;
  std::vector<std::string> names_;  ///< by the driver's number of the counter
};

}  // namespace lyre::io::dpdk
