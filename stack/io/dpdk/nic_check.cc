#include "stack/io/dpdk/nic_check.h"

#include <rte_config.h>
#include <rte_version.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <system_error>

#include "stack/base/iommu_width.h"
#include "stack/io/dpdk/ice_package.h"
#include "stack/io/dpdk/kernel_interface.h"

namespace lyre::io::dpdk {
namespace {

// Vendor and device numbers, as the drivers register them.
constexpr uint16_t kAmazon = 0x1d0f;
constexpr uint16_t kEna = 0xec20;
constexpr uint16_t kEnaReserved = 0xec21;
constexpr uint16_t kGoogle = 0x1ae0;
constexpr uint16_t kGvnic = 0x0042;
constexpr uint16_t kMicrosoft = 0x1414;
constexpr uint16_t kMana = 0x00ba;
constexpr uint16_t kMellanox = 0x15b3;
constexpr uint16_t kChelsio = 0x1425;
constexpr uint16_t kNetronome = 0x19ee;
constexpr uint16_t kCorigine = 0x1da8;
constexpr uint16_t kIntel = 0x8086;
constexpr uint16_t kFm10k[] = {0x15a4, 0x15a5, 0x15d0, 0x15d5};
constexpr uint16_t kIavfByInterrupt[] = {0x1889, 0x37cd, 0x374d};  // 800 series, X722

/// ENA's polling of admin commands, which uio_pci_generic needs as it forwards no interrupt, came
/// with 24.03; the period is the one of DPDK's guide.
constexpr DpdkVersion kEnaPolls{24, 3, 0};
constexpr const char* kEnaPollMs = "1000";
/// Until then gve knows no DQO (22.11), or cuts buffers above 16383 bytes and writes descriptors
/// that stop the queue. The mends are in 24.11.4 and in 25.11. Until 25.11 one received descriptor
/// with an error makes gve_rx_burst_dqo() loop for ever: see docs/user/clouds.md.
constexpr DpdkVersion kGveMended{24, 11, 4};
constexpr DpdkVersion kGveUnmended{25, 3, 0};
constexpr DpdkVersion kGveMendedAgain{25, 11, 0};

uint16_t read_hex(const std::string& path) {
  std::ifstream file(path);
  uint16_t value = 0;
  file >> std::hex >> value;
  return value;
}

bool is_behind_iommu(const std::string& folder) {
  const std::string group = folder + "/iommu_group";
  if (!std::filesystem::exists(group)) return false;
  std::ifstream file(group + "/name");
  std::string name;
  file >> name;
  return name != "vfio-noiommu";
}

Error refused(const DeviceArgs& args, const std::string& why) {
  return Error{ENOTSUP, args.name() + ": " + why};
}

Status prepare_ena(const PciNic& nic, const DpdkVersion& version, DeviceArgs& args) {
  if (nic.kernel_driver != "uio_pci_generic") return Ok{};
  if (version < kEnaPolls) {
    return refused(args, "ENA on uio_pci_generic needs DPDK 24.03 or later, and this is " +
                             version.text() +
                             ", allowed: lyred of Debian 13, or igb_uio or vfio-pci for the NIC");
  }
  args.set_default("control_path_poll_interval", kEnaPollMs);
  return Ok{};
}

bool needs_interrupt(const PciNic& nic) {
  return nic.vendor == kIntel &&
         std::ranges::find(kIavfByInterrupt, nic.device) != std::end(kIavfByInterrupt);
}

/// The host answers through a mailbox, and iavf_execute_vf_cmd() waits for the interrupt's callback
/// to read it. A virtual function has MSI-X alone, which uio_pci_generic does not forward; igb_uio
/// and VFIO do. The driver names these two (RTE_PMD_REGISTER_KMOD_DEP), 22.11 to 26.07. Where the
/// host does not grant VIRTCHNL_VF_OFFLOAD_WB_ON_ITR, iavf_dev_init() reads the mailbox by an alarm
/// instead: Linux's i40e grants it on X722 only, so other functions of the 700 series do without.
Status check_iavf(const PciNic& nic, const DeviceArgs& args) {
  if (nic.kernel_driver != "uio_pci_generic") return Ok{};
  return refused(args,
                 "an Intel virtual function (iavf) gets no interrupt through uio_pci_generic, "
                 "allowed: igb_uio or vfio-pci for the NIC");
}

/// In safe mode the driver works without the package, with one queue and without offloads.
Status check_ice(const PciNic& nic, const DeviceArgs& args) {
  if (!nic.lacks_firmware || args.has("safe-mode-support") || args.has("ddp_pkg_file")) return Ok{};
  return refused(args,
                 "an Intel NIC of the 800 series (ice) needs the file "
                 "/lib/firmware/intel/ice/ddp/ice.pkg, which is missing, allowed: install the "
                 "firmware package of the distribution (firmware-misc-nonfree, "
                 "firmware-intel-misc or linux-firmware)");
}

/// `flaw`: the NICs and the driver, and what it does.
Error refuse_driver(const DeviceArgs& args, const std::string& flaw) {
  return refused(args,
                 "DPDK's driver of " + flaw +
                     ", allowed: another NIC, or AF_XDP on the kernel's interface of this one");
}

/// cxgbe frees a packet that it has coalesced only when its place in the ring is used again, after
/// packets that were sent later (tx_do_packet_coalesce(), reclaim_tx_desc()). Of a packet without
/// TSO it disables the IPv4 header's checksum, and with IPv6 also TCP's (F_TXPKT_IPCSUM_DIS,
/// hwcsum()). 22.11 to 26.07.
Status refuse_chelsio(const DeviceArgs& args) {
  return refuse_driver(
      args, "Chelsio NICs (cxgbe) sends wrong checksums and keeps packets that were sent");
}

bool is_fm10k(const PciNic& nic) {
  return nic.vendor == kIntel && std::ranges::find(kFm10k, nic.device) != std::end(kFm10k);
}

/// tx_free_bulk_mbuf() leaves the first packet that it has freed in the ring, and tx_queue_clean()
/// frees it again when the port stops. 22.11 to 26.07.
Status refuse_fm10k(const DeviceArgs& args) {
  return refuse_driver(args, "Intel FM10000 NICs (fm10k) frees packets twice when its port stops");
}

/// nfp frees a packet only when its place in the ring is used again (rte_pktmbuf_free_seg() in its
/// xmit functions), and the smallest ring has 256 (NFP_NET_MIN_TX_DESC, 22.11): a worker sends
/// kFreedWithinPackets at most to have all freed. Its descriptors have 40 bits for an address.
Status refuse_nfp(const DeviceArgs& args) {
  return refuse_driver(args,
                       "Netronome and Corigine NICs (nfp) keeps packets that were sent, and "
                       "reaches addresses of 40 bits only");
}

Status check_gvnic(const DpdkVersion& version, const DeviceArgs& args) {
  const bool is_mended =
      version >= kGveMended && (version < kGveUnmended || version >= kGveMendedAgain);
  if (is_mended) return Ok{};
  return refused(args,
                 "gVNIC needs DPDK 24.11.4 or later of 24.11, or 25.11 or later, and this is " +
                     version.text() + ", allowed: lyred of Debian 13, or its image");
}

/// Drivers that work beside the kernel's: without it there is no device for them.
Status check_bifurcated(const PciNic& nic, const char* wanted, const DeviceArgs& args) {
  if (nic.kernel_driver.rfind(wanted, 0) == 0) return Ok{};
  const std::string bound = nic.kernel_driver.empty() ? "nothing" : nic.kernel_driver;
  return refused(args, std::string("stays with its kernel driver (") + wanted +
                           "), which DPDK's needs, and is bound to " + bound +
                           ", allowed: lyre nic unbind " + args.name());
}

/// Refuses each of `options` that has another value than 0.
Status refuse_given(const DeviceArgs& args, std::initializer_list<const char*> options) {
  for (const char* option : options) {
    if (!args.has(option) || args.value_of(option) == "0") continue;
    return refused(args, std::string(option) + " is '" + std::string(args.value_of(option)) +
                             "', allowed: 0, or leave it out");
  }
  return Ok{};
}

/// From 8 queues on, mlx5 copies small packets into their descriptors and frees them at once,
/// before packets that it took earlier. Sent packets are known by the order in which they are
/// freed: no packet is copied (txq_set_params()). txq_inline is an older name of the argument, and
/// txq_inline_min goes before it. With mprq_en packets are received into memory of the driver's own
/// (mprq_buf_to_pkt()), which is not lent to clients.
Status prepare_mlx5(DeviceArgs& args) {
  constexpr const char* kCopiedBytesMax = "txq_inline_max";
  const Status fit =
      refuse_given(args, {"txq_inline", "txq_inline_min", kCopiedBytesMax, "mprq_en"});
  if (!fit) return fit;
  args.set_default(kCopiedBytesMax, "0");
  return Ok{};
}

Status prepare_mellanox(const PciNic& nic, DeviceArgs& args) {
  if (Status bound = check_bifurcated(nic, "mlx", args); !bound) return bound;
  return nic.kernel_driver.starts_with("mlx5") ? prepare_mlx5(args) : Ok{};
}

/// Without a MAC address the driver takes all NICs of the machine, the first one included.
Status check_mana(const PciNic& nic, const DeviceArgs& args) {
  if (!args.has("mac")) {
    return refused(args, "a MANA function has a port for each NIC of the machine: add mac= of one");
  }
  return check_bifurcated(nic, "mana", args);
}

}  // namespace

PciNic pci_nic_of(const std::string& address, const std::string& sys, const std::string& firmware) {
  const std::string folder = sys + "/bus/pci/devices/" + address;
  PciNic nic{.vendor = read_hex(folder + "/vendor"),
             .device = read_hex(folder + "/device"),
             .kernel_driver = kernel_driver_of(folder),
             .is_behind_iommu = is_behind_iommu(folder)};
  nic.lacks_firmware =
      nic.vendor == kIntel && is_ice(nic.device) && !has_ice_package(firmware, sys);
  return nic;
}

bool is_mana(const PciNic& nic) { return nic.vendor == kMicrosoft && nic.device == kMana; }

Addressing addressing_of(const PciNic& nic) {
  const std::string& driver = nic.kernel_driver;
  if (driver == "vfio-pci") {
    return nic.is_behind_iommu ? Addressing::kVirtual : Addressing::kPhysical;
  }
  if (driver == "uio_pci_generic" || driver == "igb_uio") return Addressing::kPhysical;
  if (driver.starts_with("mlx5")) return Addressing::kVirtual;
  if (driver.starts_with("mlx4") || driver.starts_with("mana")) return Addressing::kEither;
  return Addressing::kUnknown;
}

std::string why_unreachable(const std::string& folder, const std::string& cause) {
  const uint32_t bits = iommu_address_bits(folder + "/iommu");
  if (!is_iommu_narrow(bits)) return cause;
  return "its IOMMU translates addresses of " + std::to_string(bits) +
         " bits, and those of a process have " + std::to_string(kProcessAddressBits) + " (" +
         cause + "), allowed: " + kNarrowIommuRemedy;
}

std::string DpdkVersion::text() const {
  const std::string digits = month < 10 ? "0" + std::to_string(month) : std::to_string(month);
  return std::to_string(year) + "." + digits + "." + std::to_string(patch);
}

DpdkVersion dpdk_version() {
  return {rte_version_year(), rte_version_month(), rte_version_minor()};
}

std::string driver_folder() { return RTE_EAL_PMD_PATH; }

bool has_driver(const std::string& driver, const std::string& folder) {
  bool has_any = false;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string file = entry.path().filename();
    if (file.starts_with("librte_" + driver + ".so")) return true;
    has_any = has_any || file.starts_with("librte_net_");
  }
  return !has_any;
}

bool is_mana_without_driver(const std::string& address, const std::string& folder,
                            const std::string& sys) {
  return is_mana(pci_nic_of(address, sys)) && !has_driver("net_mana", folder);
}

std::string lacks_mana_driver(const DpdkVersion& version) {
  return "is a MANA function, and DPDK " + version.text() +
         " has no driver of it here, allowed: lyred of Debian 13, or its image";
}

Status prepare_nic(const PciNic& nic, const DpdkVersion& version, DeviceArgs& args) {
  if (nic.vendor == kAmazon && (nic.device == kEna || nic.device == kEnaReserved)) {
    return prepare_ena(nic, version, args);
  }
  if (nic.vendor == kGoogle && nic.device == kGvnic) return check_gvnic(version, args);
  if (needs_interrupt(nic)) return check_iavf(nic, args);
  if (is_fm10k(nic)) return refuse_fm10k(args);
  if (nic.vendor == kIntel) return check_ice(nic, args);
  if (nic.vendor == kChelsio) return refuse_chelsio(args);
  if (nic.vendor == kNetronome || nic.vendor == kCorigine) return refuse_nfp(args);
  if (is_mana(nic)) return check_mana(nic, args);
  if (nic.vendor == kMellanox) return prepare_mellanox(nic, args);
  return Ok{};
}

/// With this argument packets stay in the buffer of the VMbus (hn_rxpkt()), which is not lent to
/// clients.
Status check_netvsc(const DeviceArgs& args) { return refuse_given(args, {"rx_extmbuf_enable"}); }

Status check_nic(const std::string& device, const DpdkVersion& version, const std::string& sys,
                 const std::string& drivers) {
  DeviceArgs args = DeviceArgs::parse(device);
  if (args.is_vmbus()) return check_netvsc(args);
  if (!args.is_pci()) return Ok{};
  const std::string address = args.device_name();
  if (Status fit = prepare_nic(pci_nic_of(address, sys), version, args); !fit) return fit;
  if (!is_mana_without_driver(address, drivers, sys)) return Ok{};
  return refused(args, lacks_mana_driver(version));
}

std::string why_on_host_path(const std::string& device, const DpdkVersion& version,
                             const std::string& sys, const std::string& drivers) {
  const DeviceArgs args = DeviceArgs::parse(device);
  const std::string mac(args.value_of("mac"));
  if (!args.is_vmbus() || mac.empty()) return "";
  const std::string function = pci_function_with(mac, sys);
  return is_mana_without_driver(function, drivers, sys) ? lacks_mana_driver(version) : "";
}

}  // namespace lyre::io::dpdk
