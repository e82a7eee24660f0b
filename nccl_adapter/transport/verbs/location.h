#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "lyre/lyre.h"

namespace lyre::nccl_adapter {

/// Where a device is attached to this host.
struct Location {
  std::string pci_path;  ///< real path in sysfs; empty: a virtual device
  int numa_node = -1;    ///< -1: not known
  friend bool operator==(const Location&, const Location&) = default;
};

/// Of the device that `link` in sysfs leads to, "/sys/class/infiniband/mlx5_0/device".
Location location_of(const std::string& link);
/// Of the daemon's port. Reads sysfs.
Location location_of(const lyre_port& port);

/// How near two devices are: the same PCI function, then behind the same port of a root complex,
/// then on the same NUMA node, then 0.
int nearness(const Location& a, const Location& b);

/// For each of `devices` the index of the one of `rails` that it belongs to: a near one; of equally
/// near ones the one that has the fewest so far, and of those the first.
/// REQUIRES: there is a rail.
std::vector<size_t> deal(std::span<const Location> devices, std::span<const Location> rails);

}  // namespace lyre::nccl_adapter
