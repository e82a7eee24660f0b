#include "machine/nic_guard.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>
#include <string_view>

#include "machine/remote_logins.h"
#include "machine/routes.h"
#include "machine/vmbus.h"

namespace lyre::machine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLower = "lower_";

}  // namespace

NicGuard::NicGuard(Roots roots, std::string ssh_connection, std::vector<OwnAddress> own_addresses)
    : roots_(std::move(roots)),
      ssh_connection_(std::move(ssh_connection)),
      own_addresses_(std::move(own_addresses)) {}

std::optional<Loss> NicGuard::loss_with(const std::string& device) const {
  const std::string vmbus_id = vmbus_id_of(device);
  const std::string device_name = vmbus_id.empty() ? pci_address_of(device) : vmbus_id;
  const std::string mac = vmbus_id.empty() ? "" : device_argument(device, "mac");
  const std::string interface = device_argument(device, "iface");
  const std::string remote = device_argument(device, "remote");
  for (const Loss& loss : needed_interfaces()) {
    if (loss.interface == interface || loss.interface == remote) return loss;
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
  for (const std::string& name : with_lower_interfaces(default_route_interfaces())) {
    needed.push_back({name, "this machine's default route"});
  }
  for (const auto& name :
       with_lower_interfaces(login_interfaces(roots_, ssh_connection_, own_addresses_))) {
    needed.push_back({name, "an SSH session"});
  }
  return needed;
}

std::set<std::string> NicGuard::default_route_interfaces() const {
  std::set<std::string> names;
  for (const bool is_of_v4 : {true, false}) {
    std::map<uint32_t, std::set<std::string>> by_metric;
    for (const Route& route : routes(roots_)) {
      if (!is_default(route) || is_v4(route) != is_of_v4) continue;
      by_metric[route.metric].insert(route.interface);
    }
    for (const auto& [metric, interfaces] : by_metric) {
      names.insert(interfaces.begin(), interfaces.end());
      if (has_device(interfaces)) break;
    }
  }
  return names;
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
