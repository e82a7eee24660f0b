#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "machine/files.h"
#include "machine/own_addresses.h"
#include "machine/routes.h"

namespace lyre::machine {

/// What a machine loses when the kernel loses a NIC.
struct Loss {
  std::string interface;
  std::string carries;  ///< "this machine's default route" or "an SSH session"
};

/// Finds the NICs that keep a machine reachable: nothing may take them from the kernel unasked, or
/// logins over the network end. The first question reads routes, sockets and processes, for all
/// questions. Thread: one.
class NicGuard {
 public:
  /// `ssh_connection` has the form of the variable SSH_CONNECTION, or is empty. Without `routing`
  /// the first question reads it.
  explicit NicGuard(Roots roots = {}, std::string ssh_connection = "",
                    std::vector<OwnAddress> own_addresses = {},
                    std::optional<Routing> routing = std::nullopt);

  /// What would be lost with `device` (an EAL device string or a PCI address), if anything.
  std::optional<Loss> loss_with(const std::string& device) const;

 private:
  const std::vector<Loss>& needed_interfaces() const;
  /// Those over which default routes leave: of each family, table and source those of the lowest
  /// metric, and of the next ones until an interface of a live route lies on a device. Routes of
  /// files have no rank among others, whose table is known.
  std::set<std::string> default_route_interfaces(const Routing& routing) const;
  bool is_used(const Route& route, const std::vector<RouteRule>& rules) const;
  bool has_source(const RouteRule& rule, const std::string& beside_interface) const;
  bool has_device(const std::set<std::string>& interfaces) const;
  std::set<std::string> with_lower_interfaces(std::set<std::string> names) const;
  bool lies_on(const std::string& interface, const std::string& device_name) const;

  Roots roots_;
  std::string ssh_connection_;
  std::vector<OwnAddress> own_addresses_;
  std::optional<Routing> routing_;
  mutable std::optional<std::vector<Loss>> needed_;  ///< once the first question was asked
};

/// "0000:00:10.0" for that, for "00:10.0" and for either with arguments behind a comma; empty when
/// `device` is not a PCI address.
std::string pci_address_of(const std::string& device);

/// The value of `name` in a device string "net_x0,name=value,...", or empty.
std::string device_argument(const std::string& device, const std::string& name);

}  // namespace lyre::machine
