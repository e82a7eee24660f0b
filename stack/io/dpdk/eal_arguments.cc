#include "stack/io/dpdk/eal_arguments.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <utility>

#include "stack/io/dpdk/kernel_interface.h"

namespace lyre::io::dpdk {
namespace {

constexpr const char* kNetvscDriver = "uio_hv_generic";

/// The address of no device. A NIC that is not allowed can be opened later, unlike with --no-pci.
constexpr const char* kNoNic = "ffffffff:ff:1f.7";

std::string iova_mode(bool is_physical) {
  return std::string("--iova-mode=") + (is_physical ? "pa" : "va");
}

/// What DPDK may open, and by which addresses it knows memory.
std::vector<std::string> nic_arguments(const AllowedNics& nics,
                                       const std::optional<NicOwner>& owner) {
  std::vector<std::string> args;
  const bool opens_later = owner && !nics.empty();
  const std::vector<std::string> words =
      opens_later ? std::vector<std::string>{kNoNic} : nics.words();
  for (const std::string& word : words) args.insert(args.end(), {"-a", word});
  // A bus of which no NIC is allowed would be searched for all NICs.
  if (!nics.has_pci()) args.emplace_back("--no-pci");
  // Root without an IOMMU would get physical addresses, which virtual devices do not need. The host
  // of a NIC on the VMbus reads memory by physical addresses.
  if (opens_later) {
    args.push_back(iova_mode(owner->uses_physical_addresses));
  } else if (nics.empty() || nics.has_vmbus()) {
    args.push_back(iova_mode(nics.has_vmbus()));
  } else if (nics.uses_virtual_addresses()) {
    // DPDK would choose physical ones for root on a machine without an IOMMU, by which mlx5 is not
    // told of client memory.
    args.push_back(iova_mode(false));
  }
  return args;
}

}  // namespace

Status AllowedNics::add(const std::string& device) {
  DeviceArgs args = DeviceArgs::parse(device);
  if (args.is_vmbus()) return add_netvsc(std::move(args));
  const std::string address = args.name();
  if (const Status added = add_function(std::move(args)); !added.ok()) return added;
  if (mana_.empty() && is_mana(pci_nic_of(address, sys_))) mana_ = address;
  note_addressing(address);
  return Ok{};
}

/// The function of a NIC of the VMbus has no needs: what clients send through it is copied to
/// packet memory, which its driver registers by itself.
void AllowedNics::note_addressing(const std::string& address) {
  const PciNic nic = pci_nic_of(address, sys_);
  switch (addressing_of(nic)) {
    case Addressing::kVirtual:
      if (virtual_.empty()) virtual_ = address;
      if (behind_iommu_.empty() && nic.kernel_driver == "vfio-pci") behind_iommu_ = address;
      return;
    case Addressing::kPhysical:
      if (physical_.empty()) physical_ = address;
      return;
    case Addressing::kEither:
      has_either_ = true;
      return;
    case Addressing::kUnknown:
      return;
  }
}

/// With physical addresses memory is mapped for no device, and with virtual ones its physical
/// addresses are not looked up. While VFIO's no-IOMMU mode is on, DPDK opens no NIC on vfio-pci
/// with virtual ones, also when it is told to use them (pci_device_iova_mode() in
/// rte_pci_probe_one_driver()).
Status AllowedNics::check_addressing() const {
  if (virtual_.empty()) return Ok{};
  const std::string physical = physical_.empty() && has_vmbus() ? vmbus_[0].name() : physical_;
  if (!physical.empty()) {
    return Error{EINVAL, virtual_ + " and " + physical +
                             ": the first fetches memory by virtual addresses and the second by "
                             "physical ones, and a daemon has one kind: give each a daemon of its "
                             "own"};
  }
  if (behind_iommu_.empty()) return Ok{};
  std::ifstream mode(sys_ + "/module/vfio/parameters/enable_unsafe_noiommu_mode");
  char answer = 'N';
  mode >> answer;
  if (answer != 'Y') return Ok{};
  return Error{EINVAL, behind_iommu_ +
                           ": is behind an IOMMU, which DPDK does not use while VFIO's no-IOMMU "
                           "mode is on: echo N > "
                           "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode"};
}

/// A NIC of the VMbus goes on without its function, through the host: FunctionWatch tells it.
Status AllowedNics::check_drivers(const std::string& folder) const {
  if (mana_.empty() || has_driver("net_mana", folder)) return Ok{};
  return Error{ENOTSUP, mana_ + ": " + lacks_mana_driver(version_)};
}

Status AllowedNics::add_function(DeviceArgs args) {
  const PciNic nic = pci_nic_of(args.name(), sys_);
  const Status fit = prepare_nic(nic, version_, args);
  if (!fit.ok()) return fit;
  // Two NICs of Azure can have one function: DPDK uses the first of two options for a device.
  const auto known = std::find_if(pci_.begin(), pci_.end(),
                                  [&](const auto& each) { return each.name() == args.name(); });
  if (known == pci_.end()) {
    pci_.push_back(std::move(args));
  } else {
    known->append(args);
  }
  return Ok{};
}

Status AllowedNics::add_netvsc(DeviceArgs args) {
  const std::string folder = args.kernel_folder(sys_);
  if (device_path(folder).empty()) {
    return Error{ENODEV, args.name() + ": there is no such device on the VMbus"};
  }
  if (const std::string driver = kernel_driver_of(folder); driver != kNetvscDriver) {
    return Error{ENODEV, args.name() + ": is bound to " + (driver.empty() ? "nothing" : driver) +
                             " and must be bound to " + kNetvscDriver +
                             ": driverctl -b vmbus set-override " + args.device_name() + " " +
                             kNetvscDriver};
  }
  if (const Status fit = check_netvsc(args); !fit.ok()) return fit;
  const std::string mac(args.value_of("mac"));
  args.remove("mac");  // its driver refuses arguments that it does not know
  if (mac.empty()) {
    vmbus_.push_back(std::move(args));
    return Ok{};
  }
  const std::string address = pci_function_with(mac, sys_);
  if (address.empty()) {
    return Error{ENODEV, args.name() + ": no PCI function has the MAC address " + mac +
                             ", allowed: that of the virtual function of this NIC, or no mac="};
  }
  DeviceArgs function = DeviceArgs::parse(address);
  if (is_mana(pci_nic_of(address, sys_))) function.set_default("mac", mac);
  vmbus_.push_back(std::move(args));
  return add_function(std::move(function));
}

std::vector<std::string> AllowedNics::words() const {
  std::vector<std::string> words;
  for (const std::vector<DeviceArgs>* list : {&pci_, &vmbus_}) {
    for (const DeviceArgs& args : *list) words.push_back(args.text());
  }
  return words;
}

bool takes_hugepages(const EnvironmentOptions& options, const AllowedNics& nics, uint64_t free_mib,
                     uint32_t heap_mib) {
  if (options.hugepages == Hugepages::kNo || free_mib == 0) return false;
  const bool is_physical = options.owner && options.owner->uses_physical_addresses;
  const bool are_required =
      options.hugepages == Hugepages::kYes || is_physical || nics.uses_physical_addresses();
  return are_required || free_mib >= heap_mib;
}

std::vector<std::string> eal_arguments(const EnvironmentOptions& options, const AllowedNics& nics,
                                       bool has_hugepages, const std::string& lcores,
                                       uint32_t heap_mib) {
  std::vector<std::string> args = {"lyre", "--lcores=" + lcores, "--no-telemetry",
                                   "--file-prefix=" + options.file_prefix};
  if (has_hugepages) {
    args.emplace_back("--in-memory");
  } else {
    // DPDK refuses --in-memory together with --no-huge.
    args.insert(args.end(), {"--no-huge", "--no-shconf", "-m", std::to_string(heap_mib)});
  }
  for (std::string& word : nic_arguments(nics, options.owner)) args.push_back(std::move(word));
  args.emplace_back(options.is_verbose ? "--log-level=*:info" : "--log-level=*:error");
  return args;
}

}  // namespace lyre::io::dpdk
