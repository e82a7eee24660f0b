#include "machine/nic_guard.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>

#include "machine/remote_logins.h"
#include "machine/routes.h"
#include "machine/vmbus.h"

namespace lyre::machine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLower = "lower_";

}  // namespace

NicGuard::NicGuard(Roots roots, std::string ssh_connection, std::vector<OwnAddress> own_addresses,
                   std::optional<Routing> routing)
    : roots_(std::move(roots)),
      ssh_connection_(std::move(ssh_connection)),
      own_addresses_(std::move(own_addresses)),
      routing_(std::move(routing)) {}

std::optional<Loss> NicGuard::loss_with(const std::string& device) const {
  const std::string vmbus_id = vmbus_id_of(device);
  const std::string device_name = vmbus_id.empty() ? pci_address_of(device) : vmbus_id;
  const std::string mac = vmbus_id.empty() ? "" : device_argument(device, "mac");
  const std::string interface = device_argument(device, "iface");
  const std::string remote = device_argument(device, "remote");
  const auto is_it = [&](const std::string& name) {
    return !name.empty() && (name == interface || name == remote);
  };
  for (const Loss& loss : needed_interfaces()) {
    if (is_it(loss.interface)) return loss;
    if (!device_name.empty() && lies_on(loss.interface, device_name)) return loss;
    // The virtual function of a NIC on the VMbus is named by its MAC address.
    if (!mac.empty() && mac == first_line(roots_.sys + "/class/net/" + loss.interface + "/address"))
      return loss;
  }
  return std::nullopt;
}

const std::vector<Loss>& NicGuard::needed_interfaces() const {
  if (needed_) return *needed_;
  std::vector<Loss>& needed = needed_.emplace();
  const Routing all = routing_ ? *routing_ : read_routing(roots_);
  for (const std::string& name : with_lower_interfaces(default_route_interfaces(all))) {
    needed.push_back({name, "this machine's default route"});
  }
  for (const auto& name :
       with_lower_interfaces(login_interfaces(roots_, ssh_connection_, own_addresses_, all))) {
    needed.push_back({name, "an SSH session"});
  }
  return needed;
}

std::set<std::string> NicGuard::default_route_interfaces(const Routing& routing) const {
  struct Interfaces {
    std::set<std::string> all;
    std::set<std::string> live;  ///< a dead route comes back with its link
  };
  using ByMetric = std::map<uint32_t, Interfaces>;
  // By origin, family, number, and the source of the routes, which have no rank among those of
  // others.
  std::map<std::tuple<bool, bool, uint32_t, Address, uint32_t>, ByMetric> tables;
  for (const Route& route : routing.routes) {
    if (!is_default(route) || !is_used(route, routing.rules)) continue;
    ByMetric& by_metric =
        tables[{route.is_of_file, is_v4(route), route.table, route.source, route.source_bits}];
    Interfaces& interfaces = by_metric[route.metric];
    interfaces.all.insert(route.interface);
    if (!route.is_dead) interfaces.live.insert(route.interface);
  }
  std::set<std::string> names;
  for (const auto& [table, by_metric] : tables) {
    for (const auto& [metric, interfaces] : by_metric) {
      names.insert(interfaces.all.begin(), interfaces.all.end());
      if (has_device(interfaces.live)) break;
    }
  }
  return names;
}

/// Clouds give a further interface a table of its own, for packets from its own addresses: these
/// addresses go with the interface. A table for some destinations has no default route of the
/// machine.
bool NicGuard::is_used(const Route& route, const std::vector<RouteRule>& rules) const {
  return std::any_of(rules.begin(), rules.end(), [&](const RouteRule& rule) {
    return leads_to(rule, route) && is_to_all(rule) && has_source(rule, route.interface);
  });
}

/// Whether the rule takes packets from all, or from an address that another interface has.
bool NicGuard::has_source(const RouteRule& rule, const std::string& beside_interface) const {
  if (is_from_all(rule)) return true;
  return std::any_of(own_addresses_.begin(), own_addresses_.end(), [&](const OwnAddress& own) {
    return own.interface != beside_interface && is_in(own.address, rule.source, rule.source_bits);
  });
}

/// Whether one of the interfaces lies on a device. A tunnel does not, and its packets leave over
/// another interface.
bool NicGuard::has_device(const std::set<std::string>& interfaces) const {
  const std::set<std::string> all = with_lower_interfaces(interfaces);
  return std::any_of(all.begin(), all.end(), [this](const std::string& name) {
    return exists(roots_.sys + "/class/net/" + name + "/device");
  });
}

/// Bridges, bonds and VLANs have lower interfaces, which carry the route too.
std::set<std::string> NicGuard::with_lower_interfaces(std::set<std::string> names) const {
  std::set<std::string> all;
  while (!names.empty()) {
    const std::string name = *names.begin();
    names.erase(names.begin());
    if (!all.insert(name).second) continue;
    for (const std::string& file : entries(roots_.sys + "/class/net/" + name)) {
      if (file.starts_with(kLower)) names.insert(file.substr(kLower.size()));
    }
  }
  return all;
}

bool NicGuard::lies_on(const std::string& interface, const std::string& device_name) const {
  std::error_code error;
  const fs::path path = fs::canonical(roots_.sys + "/class/net/" + interface + "/device", error);
  if (error) return false;
  // A virtio NIC is a child of the PCI device, so any part of the path can be the device.
  for (const fs::path& part : path) {
    if (part == device_name) return true;
  }
  return false;
}

std::string pci_address_of(const std::string& device) {
  static const std::regex kAddress(
      "(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}:[0-9a-fA-F]{2}\\.[0-7])(?:,.*)?");
  std::smatch match;
  if (!std::regex_match(device, match, kAddress)) return {};
  std::string out = (match[1].matched ? match[1].str() : "0000") + ":" + match[2].str();
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
  return out;
}

std::string device_argument(const std::string& device, const std::string& name) {
  std::istringstream parts(device);
  std::string part;
  while (std::getline(parts, part, ',')) {
    if (part.rfind(name + "=", 0) == 0) return part.substr(name.size() + 1);
  }
  return {};
}

}  // namespace lyre::machine
