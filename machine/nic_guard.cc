#include "machine/nic_guard.h"

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "machine/remote_logins.h"

namespace lyre::machine {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kRouteUp = 0x1;

}  // namespace

NicGuard::NicGuard(Roots roots, std::string ssh_connection)
    : roots_(std::move(roots)), ssh_connection_(std::move(ssh_connection)) {}

std::optional<Loss> NicGuard::loss_with(const std::string& device) const {
  const std::string pci_address = pci_address_of(device);
  const std::string interface = device_argument(device, "iface");
  const std::string remote = device_argument(device, "remote");
  for (const Loss& loss : needed_interfaces()) {
    if (loss.interface == interface || loss.interface == remote) return loss;
    if (!pci_address.empty() && lies_on_pci(loss.interface, pci_address)) return loss;
  }
  return std::nullopt;
}

std::vector<Loss> NicGuard::needed_interfaces() const {
  std::vector<Loss> needed;
  for (const std::string& name : with_lower_interfaces(default_route_interfaces())) {
    needed.push_back({name, "this machine's default route"});
  }
  for (const auto& name : with_lower_interfaces(login_interfaces(roots_, ssh_connection_))) {
    needed.push_back({name, "an SSH session"});
  }
  return needed;
}

std::set<std::string> NicGuard::default_route_interfaces() const {
  std::set<std::string> names;
  std::string line;
  std::ifstream v4(roots_.proc + "/net/route");
  std::getline(v4, line);  // its heading
  while (std::getline(v4, line)) {
    std::istringstream words(line);
    std::string name, destination, gateway, skip, mask;
    unsigned flags = 0;
    words >> name >> destination >> gateway >> std::hex >> flags >> skip >> skip >> skip >> mask;
    if (words && destination == "00000000" && mask == "00000000" && (flags & kRouteUp) != 0) {
      names.insert(name);
    }
  }
  std::ifstream v6(roots_.proc + "/net/ipv6_route");
  while (std::getline(v6, line)) {
    std::istringstream words(line);
    std::string destination, prefix, skip, name;
    unsigned flags = 0;
    words >> destination >> prefix >> skip >> skip >> skip >> skip >> skip >> skip >> std::hex >>
        flags >> name;
    const bool is_default =
        prefix == "00" && destination.find_first_not_of('0') == std::string::npos;
    if (words && is_default && (flags & kRouteUp) != 0 && name != "lo") names.insert(name);
  }
  return names;
}

/// Bridges, bonds and VLANs have lower interfaces, which carry the route too.
std::set<std::string> NicGuard::with_lower_interfaces(std::set<std::string> names) const {
  std::set<std::string> all;
  while (!names.empty()) {
    const std::string name = *names.begin();
    names.erase(names.begin());
    if (!all.insert(name).second) continue;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(roots_.sys + "/class/net/" + name, ignored)) {
      const std::string file = entry.path().filename();
      if (file.rfind("lower_", 0) == 0) names.insert(file.substr(6));
    }
  }
  return all;
}

bool NicGuard::lies_on_pci(const std::string& interface, const std::string& pci_address) const {
  std::error_code error;
  const fs::path path = fs::canonical(roots_.sys + "/class/net/" + interface + "/device", error);
  if (error) return false;
  // A virtio NIC is a child of the PCI device, so any part of the path can be the PCI address.
  for (const fs::path& part : path) {
    if (part == pci_address) return true;
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
