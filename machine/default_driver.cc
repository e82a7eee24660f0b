#include "machine/default_driver.h"

#include "machine/vmbus.h"

namespace lyre::machine {
namespace {

constexpr uint16_t kMellanox = 0x15b3;
constexpr uint16_t kMicrosoft = 0x1414;
constexpr uint16_t kMana = 0x00ba;
constexpr uint16_t kAmazon = 0x1d0f;
constexpr const char* kIgbUio = "igb_uio";

}  // namespace

bool is_mana(const Nic& nic) { return nic.vendor == kMicrosoft && nic.device == kMana; }

bool is_on_vmbus(const Nic& nic) { return !vmbus_id_of(nic.address).empty(); }

bool is_ena(const Nic& nic) { return nic.vendor == kAmazon; }

std::string remedy_for(const std::string& driver) {
  if (driver != kIgbUio) return "";
  return "apt install linux-headers-$(uname -r) dpdk-kmods-dkms && "
         "echo 'options igb_uio wc_activate=1' > /etc/modprobe.d/igb_uio.conf && modprobe igb_uio";
}

DriverChoice default_driver(const Nic& nic) {
  if (is_on_vmbus(nic)) return {kVmbusUserSpaceDriver, "it is on the VMbus of Hyper-V"};
  if (is_mana(nic)) {
    return {"",
            "DPDK drives it beside its kernel driver: name the NIC of the VMbus above it, and it "
            "by mac="};
  }
  if (nic.vendor == kMellanox) {
    return {"", "DPDK drives it beside its kernel driver: give lyred its address as it is"};
  }
  if (nic.has_iommu) return {"vfio-pci", "it is behind an IOMMU"};
  // On uio_pci_generic DPDK before 24.03 waits for an interrupt that does not come; igb_uio suits
  // every version.
  if (is_ena(nic)) return {kIgbUio, "it is an ENA behind no IOMMU"};
  return {"uio_pci_generic", "it is behind no IOMMU"};
}

}  // namespace lyre::machine
