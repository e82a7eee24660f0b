#include "machine/nics.h"

#include "machine/vmbus.h"

namespace lyre::machine {
namespace {

constexpr int64_t kClassEthernet = 0x0200;

bool is_iommu_group(const std::string& group) {
  return exists(group) && first_line(group + "/name") != "vfio-noiommu";
}

/// One that was drawn, or set by software, may be another after a boot.
std::string permanent_mac(const Roots& roots, const std::string& interface) {
  constexpr int64_t kPermanent = 0;  // NET_ADDR_PERM
  const std::string folder = roots.sys + "/class/net/" + interface;
  if (number(folder + "/addr_assign_type").value_or(kPermanent) != kPermanent) return "";
  return first_line(folder + "/address");
}

}  // namespace

std::string boot_drop_in(const std::string& etc, const std::string& bus,
                         const std::string& device) {
  return etc + "/systemd/system/driverctl@" + bus + "-" + device + ".service.d/lyre.conf";
}

/// driverctl keeps one file for each device (save_override() in driverctl).
std::string boot_driver_of(const Roots& roots, const std::string& bus, const std::string& device) {
  const std::string file = roots.etc + "/driverctl.d/" + bus + "-" + device;
  if (bus == "vmbus" && !exists(boot_drop_in(roots.etc, bus, device))) return "";
  const std::vector<std::string> driver = words(first_line(file));
  return driver.empty() ? "" : driver.front();
}

std::vector<std::string> interfaces_of(const std::string& folder) {
  std::vector<std::string> names = entries(folder + "/net");
  if (!names.empty()) return names;
  for (const std::string& child : entries(folder)) {
    if (!child.starts_with("virtio")) continue;
    for (const std::string& name : entries(folder + "/" + child + "/net")) names.push_back(name);
  }
  return names;
}

std::vector<Nic> pci_nics(const Roots& roots) {
  const std::string devices = roots.sys + "/bus/pci/devices";
  std::vector<Nic> nics;
  for (const std::string& address : entries(devices)) {
    const std::string folder = devices + "/" + address;
    if (number(folder + "/class").value_or(0) >> 8 != kClassEthernet) continue;
    const std::string told = first_line(folder + "/driver_override");
    const bool has_group = is_behind_iommu(folder);
    const bool is_past_it = has_group && bypasses_iommu(folder);
    nics.push_back({.address = address,
                    .vendor = static_cast<uint16_t>(number(folder + "/vendor").value_or(0)),
                    .device = static_cast<uint16_t>(number(folder + "/device").value_or(0)),
                    .driver = link_name(folder + "/driver"),
                    .override_driver = told == "(null)" ? "" : told,
                    .boot_driver = boot_driver_of(roots, "pci", address),
                    .interfaces = interfaces_of(folder),
                    .numa_node = number(folder + "/numa_node").value_or(-1),
                    .has_iommu = has_group && !is_past_it,
                    .bypasses_iommu = is_past_it});
    Nic& nic = nics.back();
    if (!nic.interfaces.empty()) nic.mac = permanent_mac(roots, nic.interfaces.front());
  }
  return nics;
}

bool is_behind_iommu(const std::string& folder) { return is_iommu_group(folder + "/iommu_group"); }

/// The kernel shows the features that its driver and the host agreed on, a character for each bit.
bool bypasses_iommu(const std::string& folder) {
  constexpr size_t kAccessPlatform = 33;
  for (const std::string& child : entries(folder)) {
    if (!child.starts_with("virtio")) continue;
    const std::string features = first_line(folder + "/" + child + "/features");
    const bool are_agreed = features.find('1') != std::string::npos;
    return are_agreed && features.size() > kAccessPlatform && features[kAccessPlatform] == '0';
  }
  return false;
}

size_t iommu_group_count(const Roots& roots) {
  const std::string groups = roots.sys + "/kernel/iommu_groups";
  size_t count = 0;
  for (const std::string& name : entries(groups)) {
    if (is_iommu_group(groups + "/" + name)) ++count;
  }
  return count;
}

bool is_user_space_driver(const std::string& driver) {
  return driver == "vfio-pci" || driver == "uio_pci_generic" || driver == "igb_uio" ||
         driver == kVmbusUserSpaceDriver;
}

}  // namespace lyre::machine
