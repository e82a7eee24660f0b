#include "machine/port_kind.h"

#include "machine/nic_guard.h"
#include "machine/nics.h"
#include "machine/vmbus.h"

namespace lyre::machine {
namespace {

constexpr const char* kKernelInterface = "kernel-interface.conf";
constexpr const char* kNoIommu = "no-iommu.conf";
constexpr const char* kBesideKernel = "beside-kernel-driver.conf";

constexpr struct {
  const char* prefix;
  PortKind kind;
} kVirtual[] = {
    {"net_af_packet", PortKind::kAfPacket},
    {"net_af_xdp", PortKind::kAfXdp},
    {"net_tap", PortKind::kTap},
};

PortKind kind_of_nic(const std::string& folder) {
  const std::string driver = link_name(folder + "/driver");
  if (driver.starts_with("mlx") || driver.starts_with("mana")) return PortKind::kBesideKernelDriver;
  if (!is_user_space_driver(driver)) return PortKind::kPlain;  // named when the port is opened
  const bool has_iommu = driver == "vfio-pci" && is_behind_iommu(folder);
  return has_iommu ? PortKind::kPlain : PortKind::kWithoutIommu;
}

}  // namespace

PortKind port_kind(const std::string& device, const Roots& roots) {
  for (const auto& row : kVirtual) {
    if (device.starts_with(row.prefix)) return row.kind;
  }
  if (!vmbus_id_of(device).empty()) return PortKind::kVmbus;
  const std::string address = pci_address_of(device);
  if (address.empty()) return PortKind::kPlain;
  return kind_of_nic(roots.sys + "/bus/pci/devices/" + address);
}

std::vector<std::string> drop_ins_of(PortKind kind) {
  switch (kind) {
    case PortKind::kPlain:
      return {};
    case PortKind::kAfPacket:
    case PortKind::kAfXdp:
    case PortKind::kTap:
      return {kKernelInterface};
    case PortKind::kWithoutIommu:
      return {kNoIommu};
    case PortKind::kBesideKernelDriver:
      return {kBesideKernel};
    case PortKind::kVmbus:
      return {kNoIommu, kBesideKernel};
  }
  return {};
}

std::vector<std::string> shipped_drop_ins() { return {kKernelInterface, kNoIommu, kBesideKernel}; }

}  // namespace lyre::machine
