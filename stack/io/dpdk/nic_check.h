#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "stack/base/result.h"
#include "stack/io/dpdk/device_args.h"

namespace lyre::io::dpdk {

/// A PCI NIC as the kernel shows it, before DPDK opens it.
struct PciNic {
  uint16_t vendor = 0;  ///< 0: there is no such device
  uint16_t device = 0;
  std::string kernel_driver;  ///< empty: bound to none
  /// A group that VFIO made for a NIC in no-IOMMU mode does not count.
  bool is_behind_iommu = false;
  bool lacks_firmware = false;  ///< DPDK's driver loads a file into it, and there is none
};
/// `sys` and `firmware`: where the kernel's files are, and those that drivers load.
PciNic pci_nic_of(const std::string& address, const std::string& sys = "/sys",
                  const std::string& firmware = "/lib/firmware");
/// Azure's NIC. One PCI function of it has a port for each of the machine's NICs.
bool is_mana(const PciNic& nic);

/// By which addresses a NIC can fetch memory of this process.
enum class Addressing : uint8_t {
  kUnknown,   ///< DPDK decides
  kEither,    ///< its driver registers packet memory by itself, and reads no other: mana, mlx4
  kVirtual,   ///< an IOMMU, or its driver, maps the process's addresses
  kPhysical,  ///< nothing maps them
};
Addressing addressing_of(const PciNic& nic);

/// Why the NIC with this folder in /sys cannot fetch memory of this process, where DPDK gave
/// `cause`: that, or what is known of its IOMMU and the remedy.
std::string why_unreachable(const std::string& folder, const std::string& cause);

struct DpdkVersion {
  uint32_t year = 0;
  uint32_t month = 0;
  uint32_t patch = 0;
  friend auto operator<=>(const DpdkVersion&, const DpdkVersion&) = default;
  std::string text() const;  ///< "24.11.4"
};
/// Of the library that runs.
DpdkVersion dpdk_version();

/// Where DPDK has its drivers.
std::string driver_folder();
/// Whether DPDK has this driver ("net_mana") among its libraries in `folder`. Without a library
/// there drivers are part of this program, and it is not known which: true.
bool has_driver(const std::string& driver, const std::string& folder);

/// Whether the PCI function is one of MANA, and DPDK has no driver of it in `folder`.
bool is_mana_without_driver(const std::string& address, const std::string& folder,
                            const std::string& sys = "/sys");
/// What keeps such a function from being used: "is a MANA ...".
std::string lacks_mana_driver(const DpdkVersion& version);

/// Adds the device arguments that the NIC's driver needs, unless they are given.
/// Fails: this version of DPDK, or DPDK at all, cannot drive the NIC as it is bound; one line that
/// names what can.
Status prepare_nic(const PciNic& nic, const DpdkVersion& version, DeviceArgs& args);

/// Fails: a device argument of a NIC on the VMbus that cannot be used; one line that says what can.
Status check_netvsc(const DeviceArgs& args);

/// Whether prepare_nic() or check_netvsc() would refuse `device` as the kernel shows it now, or
/// DPDK has no driver of it in `drivers`. A virtual device, and one that is not there, is not
/// refused.
Status check_nic(const std::string& device, const DpdkVersion& version,
                 const std::string& sys = "/sys", const std::string& drivers = driver_folder());

/// Why a NIC on the VMbus sends and receives through the host, although `device` names its virtual
/// function: that "is a MANA ...", without a driver in `drivers`. Empty: nothing is known.
std::string why_on_host_path(const std::string& device, const DpdkVersion& version,
                             const std::string& sys = "/sys",
                             const std::string& drivers = driver_folder());

}  // namespace lyre::io::dpdk
