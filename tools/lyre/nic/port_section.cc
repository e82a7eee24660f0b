#include "tools/lyre/nic/port_section.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <ostream>

#include "machine/files.h"
#include "machine/routes.h"

namespace lyre::tools {
namespace {

constexpr size_t kAddressesMax = 7;  // of a port: docs of port.address in lyred.toml

template <typename Address>
std::string with_prefix(int family, const Address& address, const Address& mask) {
  char text[INET6_ADDRSTRLEN] = {};
  if (inet_ntop(family, &address, text, sizeof text) == nullptr) return "";
  uint8_t bytes[sizeof(Address)];
  std::memcpy(bytes, &mask, sizeof mask);
  int bits = 0;
  for (const uint8_t byte : bytes) bits += std::popcount(byte);
  return std::string(text) + "/" + std::to_string(bits);
}

/// Empty for what is no address of a port.
std::string address_of(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || entry.ifa_netmask == nullptr) return "";
  if (entry.ifa_addr->sa_family == AF_INET) {
    return with_prefix(AF_INET, reinterpret_cast<const sockaddr_in*>(entry.ifa_addr)->sin_addr,
                       reinterpret_cast<const sockaddr_in*>(entry.ifa_netmask)->sin_addr);
  }
  if (entry.ifa_addr->sa_family != AF_INET6) return "";
  const auto& address = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr;
  if (IN6_IS_ADDR_LINKLOCAL(&address)) return "";
  return with_prefix(AF_INET6, address,
                     reinterpret_cast<const sockaddr_in6*>(entry.ifa_netmask)->sin6_addr);
}

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// A /32 or /128, as clouds give it: the own subnet is behind the router, too.
bool is_lone(const std::string& address) {
  return address.ends_with("/32") || address.ends_with("/128");
}

bool is_v4_text(const std::string& address) { return address.find(':') == std::string::npos; }

/// The router of the first default route over these interfaces, which has the best metric. Beside a
/// lone address also that of another route.
std::string gateway_of(const std::vector<std::string>& names,
                       const std::vector<machine::Route>& routes, bool is_v4, bool takes_others) {
  std::string found;
  for (const machine::Route& route : routes) {
    const std::string gateway = machine::text_of(route.gateway);
    if (is_v4_text(gateway) != is_v4 || !machine::has_gateway(route)) continue;
    if (!is_among(names, route.interface)) continue;
    if (machine::is_default(route)) return gateway;
    if (found.empty() && takes_others) found = gateway;
  }
  return found;
}

/// A TOML value: one string, or a list.
std::string value_of(const std::vector<std::string>& addresses) {
  std::string out;
  for (const std::string& address : addresses) {
    out += (out.empty() ? "\"" : ", \"") + address + "\"";
  }
  return addresses.size() == 1 ? out : "[" + out + "]";
}

/// The interface of a NIC that stays with its kernel driver stays, too, and keeps its addresses.
std::string kept_addresses(const machine::Nic& nic, const InterfaceUse& use) {
  std::string out = "# The kernel must not have these addresses as well:\n";
  for (const std::string& address : use.addresses) {
    for (const std::string& name : nic.interfaces) {
      out += "#   ip address del " + address + " dev " + name + "\n";
    }
  }
  return out +
         "# Also take them out of the network configuration (netplan, cloud-init), which sets "
         "them\n"
         "# again at boot.\n";
}

/// 0: the kernel does not know it, and may write -1.
uint32_t positive_number(const std::string& file) {
  return static_cast<uint32_t>(std::max<int64_t>(machine::number(file).value_or(0), 0));
}

/// The kernel forgets the speed with the interface.
std::string speed_of_port(const machine::Nic& nic, uint32_t mbps) {
  if (mbps > 0) return "speed_mbps = " + std::to_string(mbps) + "\n";
  if (stays_with_kernel(nic)) return "";
  return "# The kernel did not know the speed: write it here, in Mb/s. Without it this port\n"
         "# counts as 0 for cores = \"auto\" (one worker if it is the only port), and NCCL is\n"
         "# told 10 Gb/s unless the NIC reports its speed to lyred.\n"
         "#speed_mbps = 25000\n";
}

}  // namespace

InterfaceUse interface_use(const std::vector<std::string>& names, const machine::Roots& roots) {
  InterfaceUse use;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return use;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (!is_among(names, entry->ifa_name)) continue;
    const std::string address = address_of(*entry);
    if (!address.empty() && use.addresses.size() < kAddressesMax) use.addresses.push_back(address);
  }
  use.gateways = gateways_of(names, use.addresses, roots);
  for (const std::string& name : names) {
    const std::string folder = roots.sys + "/class/net/" + name;
    use.mtu_bytes = positive_number(folder + "/mtu");
    use.speed_mbps = std::max(use.speed_mbps, positive_number(folder + "/speed"));
  }
  return use;
}

std::vector<std::string> gateways_of(const std::vector<std::string>& names,
                                     const std::vector<std::string>& addresses,
                                     const machine::Roots& roots) {
  const std::vector<machine::Route> routes = machine::routes(roots);
  std::vector<std::string> gateways;
  for (const bool is_v4 : {true, false}) {
    bool has_family = false, has_lone = false;
    for (const std::string& address : addresses) {
      if (is_v4_text(address) != is_v4) continue;
      has_family = true;
      has_lone = has_lone || is_lone(address);
    }
    const std::string gateway = has_family ? gateway_of(names, routes, is_v4, has_lone) : "";
    if (!gateway.empty()) gateways.push_back(gateway);
  }
  return gateways;
}

std::string port_section(const NicState& state, const InterfaceUse& use) {
  const machine::Nic& nic = state.nic;
  std::string out = "\n[[port]]\n";
  if (stays_with_kernel(nic) && !use.addresses.empty()) out += kept_addresses(nic, use);
  out += "name = \"" + (nic.interfaces.empty() ? "rail0" : nic.interfaces.front()) + "\"\n";
  out += "device = \"" + state.device + "\"\n";
  out += speed_of_port(nic, use.speed_mbps);
  if (use.addresses.empty()) {
    out += "# The kernel had no address on it: write this host's address and its network here.\n";
    out += "#address = \"10.9.0.1/24\"\n";
  } else {
    out += "address = " + value_of(use.addresses) + "\n";
  }
  if (!use.gateways.empty()) out += "gateway = " + value_of(use.gateways) + "\n";
  if (use.mtu_bytes > 0) out += "mtu = " + std::to_string(use.mtu_bytes) + "\n";
  return out;
}

void print_section(const std::string& section, std::ostream& out, std::ostream& instead) {
  if (out << section << std::flush) return;
  instead << "the section of lyred.toml was not written to standard output:\n" << section;
}

}  // namespace lyre::tools
