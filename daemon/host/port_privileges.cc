#include "daemon/host/port_privileges.h"

#include <cerrno>

#include "machine/nic_guard.h"
#include "machine/nics.h"
#include "machine/vmbus.h"

namespace lyre {
namespace {

constexpr Capabilities kRaw = capability(CAP_NET_RAW);
constexpr Capabilities kNetwork = capability(CAP_NET_ADMIN);
constexpr Capabilities kSystem = capability(CAP_SYS_ADMIN);

constexpr std::string_view kKernelInterface = "kernel-interface.conf";
constexpr std::string_view kBesideKernel = "beside-kernel-driver.conf";
constexpr std::string_view kNoIommu = "no-iommu.conf";
constexpr std::string_view kVmbusDropIns = "no-iommu.conf and beside-kernel-driver.conf";

/// What opens a port is kept: a device that was away is opened again. DPDK's AF_PACKET driver sets
/// the interface's MAC address whenever it starts. AF_XDP's takes its program from the interface
/// when the port closes.
constexpr struct {
  std::string_view prefix;
  PortPrivileges privileges;
} kVirtual[] = {
    {"net_af_packet", {kRaw | kNetwork, kKernelInterface}},
    {"net_af_xdp", {kRaw | kNetwork | capability(CAP_BPF), kKernelInterface}},
    {"net_tap", {kNetwork, kKernelInterface}},
};

/// A NIC without IOMMU gets physical addresses, which DPDK's heap and pinned client memory need
/// again and again; its files are root's, and VFIO requires CAP_SYS_RAWIO for its group. Such a NIC
/// reads and writes any memory of the machine: a process that drives it is as powerful with these
/// capabilities as without them.
constexpr PortPrivileges kWithoutIommu{
    kSystem | capability(CAP_SYS_RAWIO) | capability(CAP_DAC_OVERRIDE), kNoIommu};
/// Queues and flow rules are made by the kernel's driver, which asks for these again.
constexpr PortPrivileges kBifurcated{kRaw | kNetwork, kBesideKernel};
/// A NIC on the VMbus is without IOMMU, and its virtual function beside the kernel's driver.
constexpr PortPrivileges kVmbus{kWithoutIommu.needed | kBifurcated.needed, kVmbusDropIns};

PortPrivileges privileges_of_nic(const std::string& folder) {
  const std::string driver = machine::link_name(folder + "/driver");
  if (driver.starts_with("mlx") || driver.starts_with("mana")) return kBifurcated;
  if (!machine::is_user_space_driver(driver)) return {};  // named when the port is opened
  const bool has_iommu = driver == "vfio-pci" && machine::is_behind_iommu(folder);
  return has_iommu ? PortPrivileges{} : kWithoutIommu;
}

}  // namespace

PortPrivileges privileges_of(const std::string& device, const machine::Roots& roots) {
  for (const auto& kind : kVirtual) {
    if (device.starts_with(kind.prefix)) return kind.privileges;
  }
  if (!machine::vmbus_id_of(device).empty()) return kVmbus;
  const std::string address = machine::pci_address_of(device);
  if (address.empty()) return {};
  return privileges_of_nic(roots.sys + "/bus/pci/devices/" + address);
}

Status check_privileges(const Config& config, Capabilities held, const machine::Roots& roots) {
  for (const PortConfig& port : config.ports) {
    const PortPrivileges privileges = privileges_of(port.device, roots);
    const Capabilities missing = privileges.needed & ~held;
    if (missing == 0) continue;
    return Error{
        EPERM, complaint(config.file, port.line, "port.device",
                         "'" + port.device + "' of '" + port.name + "' needs " + names_of(missing) +
                             ", allowed: root, or a service with the drop-in" +
                             (privileges.drop_in == kVmbusDropIns ? "s " : " ") +
                             std::string(privileges.drop_in))};
  }
  return Ok{};
}

Capabilities capabilities_to_keep(const Config& config, const machine::Roots& roots) {
  // CAP_IPC_LOCK only permits locking memory: client memory is pinned as long as the daemon runs.
  Capabilities kept = capability(CAP_IPC_LOCK);
  for (const PortConfig& port : config.ports) kept |= privileges_of(port.device, roots).needed;
  return kept;
}

}  // namespace lyre
