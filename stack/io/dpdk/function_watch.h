#pragma once

#include <string>
#include <vector>

#include "stack/base/nanos.h"
#include "stack/io/backend.h"
#include "stack/io/dpdk/device_args.h"

namespace lyre::io::dpdk {

/// Whether a NIC on the VMbus sends and receives through its PCI function. Its driver does not
/// tell: without the function packets pass the host, with a fraction of the bandwidth.
/// Thread: the control thread.
class FunctionWatch {
 public:
  /// DPDK looks for 10 s for a function that has come (netvsc_hotplug_retry()): one that the kernel
  /// has shown for this time, and that DPDK does not use, it never uses.
  static constexpr Nanos kUsedWithin = seconds(60);

  /// What there is to see of the function that the argument `mac` names. Without one the port has
  /// no function. `netvsc_port`: the number of the running port.
  void look(const DeviceArgs& args, uint16_t netvsc_port, Nanos now);
  /// `is_used`: the port of the function runs. `is_there`: the kernel shows the function.
  void note(bool is_used, bool is_there, Nanos now);

  /// What there is to tell the operator; empty: nothing.
  std::string warning() const;
  /// Adds the counter `on_host_path` while packets pass the host.
  std::vector<DeviceCounter> with_path(std::vector<DeviceCounter> counters) const;

 private:
  bool is_on_host_path_ = false;
  bool is_lost_ = false;  ///< kUsedWithin has passed
  Nanos there_since_ = kNever;
};

}  // namespace lyre::io::dpdk
