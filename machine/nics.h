#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "machine/files.h"

namespace lyre::machine {

/// A network interface card as device of the PCI bus or of Hyper-V's VMbus.
struct Nic {
  std::string address;  ///< "0000:00:06.0", "vmbus:f8615163-0000-1000-2000-6045bd7a8d7c"
  uint16_t vendor = 0;
  uint16_t device = 0;
  std::string driver;           ///< the kernel driver it is bound to; empty: none
  std::string override_driver;  ///< that the kernel was told to bind, until a boot; empty: none
  std::string boot_driver;      ///< that driverctl binds at each boot; empty: the kernel chooses
  std::vector<std::string> interfaces;  ///< the kernel's, while it has them
  int64_t numa_node = -1;
  bool has_iommu = false;  ///< as is_behind_iommu()
};

/// All Ethernet NICs of the machine, by address.
std::vector<Nic> pci_nics(const Roots& roots);

/// Nic::boot_driver of a device of the bus "pci" or "vmbus".
std::string boot_driver_of(const Roots& roots, const std::string& bus, const std::string& device);

/// The kernel's interfaces of the PCI device with this folder in /sys: its own, or those of its
/// virtio child.
std::vector<std::string> interfaces_of(const std::string& folder);

/// True for a NIC, by its folder in /sys, that lies in an IOMMU group. VFIO makes a group for a NIC
/// in no-IOMMU mode, too, which does not count.
bool is_behind_iommu(const std::string& folder);

/// IOMMU groups of the machine, by the same rule.
size_t iommu_group_count(const Roots& roots);

/// True for a kernel driver through which DPDK drives a NIC alone: vfio-pci, uio_pci_generic,
/// igb_uio, and uio_hv_generic on the VMbus.
bool is_user_space_driver(const std::string& driver);

}  // namespace lyre::machine
