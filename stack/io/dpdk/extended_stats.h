#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stack/io/backend.h"

namespace lyre::io::dpdk {

/// The name under which a counter of rte_eth_xstats is shown: that of a queue without the queue's
/// number. Empty: packets and bytes of the port and of its queues, which are shown elsewhere.
std::string shown_name(std::string_view name);

/// The counters that a driver has besides packets and bytes (rte_eth_xstats), those of queues as
/// sums over all queues. Thread: the control thread.
class ExtendedStats {
 public:
  /// The device was opened: its counters may be others than before.
  void open(uint16_t port_id);
  void close() { names_.clear(); }
  /// Those that are not zero; none while no device is open. May sleep until the device answers.
  std::vector<DeviceCounter> read() const;

 private:
  uint16_t port_id_ = 0;
  std::vector<std::string> names_;  ///< by the driver's number of the counter; empty: not shown
};

}  // namespace lyre::io::dpdk
