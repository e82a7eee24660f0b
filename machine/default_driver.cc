#include "machine/default_driver.h"

#include <algorithm>
#include <iterator>

#include "machine/vmbus.h"

namespace lyre::machine {
namespace {

constexpr uint16_t kMellanox = 0x15b3;
constexpr uint16_t kMicrosoft = 0x1414;
constexpr uint16_t kMana = 0x00ba;
constexpr uint16_t kAmazon = 0x1d0f;
constexpr uint16_t kIntel = 0x8086;
constexpr uint16_t kIavf[] = {0x154c, 0x1571, 0x1889, 0x37cd, 0x374d};
/// The driver of the others may poll instead: see check_iavf() in stack/io/dpdk/nic_check.cc.
constexpr uint16_t kIavfByInterrupt[] = {0x1889, 0x37cd, 0x374d};
constexpr const char* kVfio = "vfio-pci";
constexpr const char* kIgbUio = "igb_uio";
constexpr const char* kUioGeneric = "uio_pci_generic";

bool needs_interrupt(const Nic& nic) {
  return nic.vendor == kIntel &&
         std::ranges::find(kIavfByInterrupt, nic.device) != std::end(kIavfByInterrupt);
}

}  // namespace

bool is_mana(const Nic& nic) { return nic.vendor == kMicrosoft && nic.device == kMana; }

bool is_on_vmbus(const Nic& nic) { return !vmbus_id_of(nic.address).empty(); }

bool is_ena(const Nic& nic) { return nic.vendor == kAmazon; }

bool is_iavf(const Nic& nic) {
  return nic.vendor == kIntel && std::ranges::find(kIavf, nic.device) != std::end(kIavf);
}

std::string why_unsuitable(const Nic& nic, const std::string& driver) {
  if (nic.bypasses_iommu && driver == kVfio) {
    return "is a virtio NIC that bypasses the IOMMU, so that vfio-pci gives it addresses that its "
           "host does not translate, allowed: uio_pci_generic, or iommu_platform=on at its host";
  }
  if (!needs_interrupt(nic) || driver != kUioGeneric) return "";
  return std::string(
             "is an Intel virtual function (iavf), which gets no interrupt through "
             "uio_pci_generic, allowed: ") +
         (nic.has_iommu ? kVfio : kIgbUio);
}

/// DKMS builds a module for a new kernel only where a package brings its headers as well.
std::string remedy_for(const std::string& driver, const std::string& release) {
  if (driver != kIgbUio) return "";
  const std::string later = headers_package(release);
  return "apt install linux-headers-$(uname -r) " + later + (later.empty() ? "" : " ") +
         "dpdk-kmods-dkms && echo 'options igb_uio wc_activate=1' > "
         "/etc/modprobe.d/igb_uio.conf && modprobe igb_uio";
}

std::string remedy_for_absent(const std::string& driver, const Roots& roots) {
  if (const std::string remedy = remedy_for(driver); !remedy.empty()) return remedy;
  const std::string package = extra_modules_package(roots);
  return package.empty() ? "" : "apt install " + package;
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
  if (nic.has_iommu) return {kVfio, "it is behind an IOMMU"};
  if (nic.bypasses_iommu) {
    return {
        kUioGeneric,
        "it bypasses the IOMMU: its host has it without iommu_platform=on, which vfio-pci needs"};
  }
  // On uio_pci_generic DPDK before 24.03 waits for an interrupt that does not come; igb_uio suits
  // every version.
  if (is_ena(nic)) return {kIgbUio, "it is an ENA behind no IOMMU"};
  if (is_iavf(nic)) return {kIgbUio, "it is an Intel virtual function (iavf) behind no IOMMU"};
  return {kUioGeneric, "it is behind no IOMMU"};
}

}  // namespace lyre::machine
