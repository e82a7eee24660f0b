#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stack/base/nanos.h"
#include "stack/io/backend.h"
#include "stack/io/dpdk/device_args.h"

namespace lyre::io::dpdk {

/// Of the PCI function of a NIC on the VMbus.
enum class FunctionState : uint8_t {
  kUsed,           ///< its port runs
  kUnused,         ///< the kernel shows it, and DPDK does not use it
  kWithoutDriver,  ///< the kernel shows it, and DPDK has no driver of it
  kAway,           ///< the kernel does not show it
};

/// Whether a NIC on the VMbus sends and receives through its PCI function. Its driver does not
/// tell: without the function packets pass the host, with a fraction of the bandwidth.
/// Thread: the control thread.
class FunctionWatch {
 public:
  /// DPDK looks for 10 s for a function that has come (netvsc_hotplug_retry()): one that the kernel
  /// has shown for this time, and that DPDK does not use, it never uses.
  static constexpr Nanos kUsedWithin = seconds(60);
  /// The function is not in use for a moment when the port starts and is given it.
  static constexpr Nanos kToldAfter = seconds(5);

  /// What there is to see of the function that the argument `mac` names. Without one the port has
  /// no function. `netvsc_port`: the number of the running port. While DPDK's interrupt thread is
  /// busy nothing is noted.
  void look(const DeviceArgs& args, uint16_t netvsc_port, Nanos now);
  void note(FunctionState state, Nanos now);

  /// What there is to tell the operator; empty: nothing. `first_error`: of DPDK's start; empty:
  /// none.
  std::string warning(const std::string& first_error) const;
  /// Adds the counter `on_host_path` while packets pass the host.
  std::vector<DeviceCounter> with_path(std::vector<DeviceCounter> counters) const;

 private:
  FunctionState state_ = FunctionState::kUsed;
  Nanos now_;
  Nanos on_host_since_ = kNever;
  Nanos unused_since_ = kNever;
  bool has_changed_ = false;  ///< in use or away before: the start of DPDK is not the cause
};

}  // namespace lyre::io::dpdk
