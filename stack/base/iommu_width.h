#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace lyre {

/// Bits of the largest address of a process (x86-64, four levels of page tables): the kernel gives
/// larger ones, of five levels, only to who asks for them. A NIC behind an IOMMU gets the process's
/// own addresses. On arm64 they have up to 48 bits, and nothing tells those of the IOMMU.
inline constexpr uint32_t kProcessAddressBits = 47;
/// Where the host emulates the IOMMU it can be wider; a real one is as it is.
inline constexpr const char* kNarrowIommuRemedy =
    "in a guest of QEMU: -device intel-iommu,aw-bits=48; elsewhere intel_iommu=off on the kernel's "
    "command line, and uio_pci_generic for the NIC";

/// Bits of the addresses that an IOMMU translates, by its folder in /sys: MGAW, bits 16 to 21 of
/// Intel's capability register, is one less (VT-d, 11.4.2). 0: it does not say.
inline uint32_t iommu_address_bits(const std::string& folder) {
  std::ifstream file(folder + "/intel-iommu/cap");
  uint64_t capabilities = 0;
  if (!(file >> std::hex >> capabilities)) return 0;
  return static_cast<uint32_t>(capabilities >> 16 & 0x3f) + 1;
}
inline bool is_iommu_narrow(uint32_t bits) { return bits != 0 && bits < kProcessAddressBits; }

}  // namespace lyre
