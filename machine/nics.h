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
  bool has_iommu = false;  ///< as is_behind_iommu(), and it does not bypass it
  /// It is behind an IOMMU, and reads physical addresses all the same: see bypasses_iommu(). Known
  /// while the kernel's virtio-pci has it.
  bool bypasses_iommu = false;
  std::string mac{};  ///< that the first interface was made with; empty: none, or not known
};

/// All Ethernet NICs of the machine, by address.
std::vector<Nic> pci_nics(const Roots& roots);

/// The drop-in of driverctl's unit for a device of the bus "pci" or "vmbus", which `lyre nic bind`
/// writes below `etc`.
std::string boot_drop_in(const std::string& etc, const std::string& bus, const std::string& device);

/// Nic::boot_driver of a device of the bus "pci" or "vmbus". On the VMbus it counts with the
/// drop-in only: the unit of driverctl 0.111 replaces each '-' of the device by '/', and finds no
/// device.
std::string boot_driver_of(const Roots& roots, const std::string& bus, const std::string& device);

/// The kernel's interfaces of the PCI device with this folder in /sys: its own, or those of its
/// virtio child.
std::vector<std::string> interfaces_of(const std::string& folder);

/// True for a NIC, by its folder in /sys, that lies in an IOMMU group. VFIO makes a group for a NIC
/// in no-IOMMU mode, too, which does not count.
bool is_behind_iommu(const std::string& folder);

/// True for a virtio NIC, by its folder in /sys, that was not offered the platform's addresses
/// (VIRTIO_F_ACCESS_PLATFORM; QEMU: iommu_platform=on): its host takes what the driver gives it as
/// physical addresses, whatever the IOMMU translates. False when no driver has asked for features.
bool bypasses_iommu(const std::string& folder);

/// IOMMU groups of the machine, by the rule of is_behind_iommu().
size_t iommu_group_count(const Roots& roots);

/// True for a kernel driver through which DPDK drives a NIC alone: vfio-pci, uio_pci_generic,
/// igb_uio, and uio_hv_generic on the VMbus.
bool is_user_space_driver(const std::string& driver);

}  // namespace lyre::machine
