#pragma once

#include <optional>
#include <set>
#include <string>

namespace lyre {

/// Finds the NIC of the default route: the daemon must not take it from the kernel, or logins over
/// the network end.
class NicGuard {
 public:
  /// The roots are "/proc" and "/sys" outside tests.
  explicit NicGuard(std::string proc_root = "/proc", std::string sys_root = "/sys");

  /// The kernel interface that carries a default route and would be lost with `device` (an EAL
  /// device string or a PCI address), if there is one.
  std::optional<std::string> lost_interface(const std::string& device) const;

 private:
  std::set<std::string> default_route_interfaces() const;
  std::set<std::string> with_lower_interfaces(std::set<std::string> names) const;
  bool lies_on_pci(const std::string& interface, const std::string& pci_address) const;

  std::string proc_root_;
  std::string sys_root_;
};

/// "0000:00:10.0" for that, for "00:10.0" and for either with arguments behind a comma; empty when
/// `device` is not a PCI address.
std::string pci_address_of(const std::string& device);

/// The value of `name` in a device string "net_x0,name=value,...", or empty.
std::string device_argument(const std::string& device, const std::string& name);

}  // namespace lyre
