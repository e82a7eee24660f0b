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

/// Whether the counter that is shown under this name counts faults after which a queue of ENA needs
/// a reset.
bool is_fault(std::string_view shown);

/// The counters that a driver has besides packets and bytes (rte_eth_xstats), those of queues as
/// sums over all queues. Thread: the control thread.
class ExtendedStats {
 public:
  /// The device was opened or reset: its counters may be others than before, and begin at zero.
  void open(uint16_t port_id);
  void close() {
    names_.clear();
    fault_ids_.clear();
  }
  /// Those that are not zero; none while no device is open. May sleep until the device answers.
  std::vector<DeviceCounter> read() const;
  /// Whether there are more faults than at the last call, or than none after open(): see
  /// is_fault().
  bool has_new_faults();

 private:
  uint16_t port_id_ = 0;
  std::vector<std::string> names_;  ///< by the driver's number of the counter; empty: not shown
  std::vector<uint64_t> fault_ids_;
  uint64_t faults_ = 0;
};

}  // namespace lyre::io::dpdk
