#include "machine/default_driver.h"

namespace lyre::machine {
namespace {

constexpr uint16_t kMellanox = 0x15b3;
constexpr uint16_t kMicrosoft = 0x1414;

}  // namespace

DriverChoice default_driver(const Nic& nic) {
  if (nic.vendor == kMellanox || nic.vendor == kMicrosoft) {
    return {"", "DPDK drives it beside its kernel driver: give lyred its address as it is"};
  }
  if (nic.has_iommu) return {"vfio-pci", "it is behind an IOMMU"};
  return {"uio_pci_generic", "it is behind no IOMMU"};
}

}  // namespace lyre::machine
