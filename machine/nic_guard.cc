#include "daemon/nic_guard.h"

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

namespace lyre {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kRouteUp = 0x1;

}  // namespace

NicGuard::NicGuard(std::string proc_root, std::string sys_root)
    : proc_root_(std::move(proc_root)), sys_root_(std::move(sys_root)) {}

std::optional<std::string> NicGuard::lost_interface(const std::string& device) const {
  const std::string pci_address = pci_address_of(device);
  const std::string interface = device_argument(device, "iface");
  const std::string remote = device_argument(device, "remote");
  for (const std::string& name : with_lower_interfaces(default_route_interfaces())) {
    if (name == interface || name == remote) return name;
    if (!pci_address.empty() && lies_on_pci(name, pci_address)) return name;
  }
  return std::nullopt;
}

std::set<std::string> NicGuard::default_route_interfaces() const {
  std::set<std::string> names;
  std::string line;
  std::ifstream v4(proc_root_ + "/net/route");
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
  std::ifstream v6(proc_root_ + "/net/ipv6_route");
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
    for (const auto& entry : fs::directory_iterator(sys_root_ + "/class/net/" + name, ignored)) {
      const std::string file = entry.path().filename();
      if (file.rfind("lower_", 0) == 0) names.insert(file.substr(6));
    }
  }
  return all;
}

bool NicGuard::lies_on_pci(const std::string& interface, const std::string& pci_address) const {
  std::error_code error;
  const fs::path path = fs::canonical(sys_root_ + "/class/net/" + interface + "/device", error);
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

}  // namespace lyre
