#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/files.h"

namespace lyre::machine {

/// Ports that need the same of the process that opens them.
enum class PortKind : uint8_t {
  kPlain,  ///< memif, a NIC on vfio-pci behind an IOMMU, one that is bound to no such driver
  kAfPacket,
  kAfXdp,
  kTap,
  kWithoutIommu,        ///< a NIC that fetches from physical addresses
  kBesideKernelDriver,  ///< mlx5, mana
  kVmbus,  ///< Azure: without an IOMMU, and a virtual function beside its kernel driver
};

/// By device string and, for a PCI address, by the kernel driver that the NIC is bound to.
PortKind port_kind(const std::string& device, const Roots& roots);

/// The drop-ins of lyred.service that ports of this kind need, by file name.
std::vector<std::string> drop_ins_of(PortKind kind);

/// All that Lyre ships, by file name.
std::vector<std::string> shipped_drop_ins();

}  // namespace lyre::machine
