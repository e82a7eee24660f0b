#include "tools/lyre/nic/port_section.h"

#include <algorithm>
#include <iterator>
#include <ostream>
#include <tuple>
#include <utility>

#include "machine/files.h"

namespace lyre::tools {
namespace {

constexpr size_t kAddressesMax = 7;  // of a port: docs of port.address in lyred.toml

std::string with_prefix(const machine::OwnAddress& own) {
  const uint32_t before = machine::is_v4(own.address) ? machine::kMappedBits : 0;
  return machine::text_of(own.address) + "/" + std::to_string(own.bits - before);
}

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// A /32 or /128, as clouds give it: the own subnet is behind the router, too.
bool is_lone(const std::string& address) {
  return address.ends_with("/32") || address.ends_with("/128");
}

bool is_v4_text(const std::string& address) { return address.find(':') == std::string::npos; }

/// Of the routes of a family over these interfaces the one whose router is the port's: one with a
/// router, then a default route, then one of the main table, then by metric. Beside a lone address
/// also one to another network, if it has a router. Null: there is none.
const machine::Route* router_route(const std::vector<std::string>& names,
                                   const std::vector<machine::Route>& routes, bool is_v4,
                                   bool takes_others) {
  const auto rank = [](const machine::Route& route) {
    return std::tuple(!machine::has_gateway(route), !machine::is_default(route),
                      route.table != machine::kMainTable, route.metric);
  };
  const machine::Route* best = nullptr;
  for (const machine::Route& route : routes) {
    if (machine::is_v4(route) != is_v4 || !is_among(names, route.interface)) continue;
    const bool may_be_taken = takes_others && machine::has_gateway(route);
    if (!machine::is_default(route) && !may_be_taken) continue;
    if (best == nullptr || rank(route) < rank(*best)) best = &route;
  }
  return best;
}

/// Why the router of a default route is not one that a port can have.
std::string why_no_gateway(const machine::Route& route) {
  const std::string family = machine::is_v4(route) ? "IPv4" : "IPv6";
  const bool is_of_other_family =
      route.gateway != machine::Address{} && machine::is_v4(route.gateway) != machine::is_v4(route);
  const std::string has =
      is_of_other_family ? "has a router of the other family, " + machine::text_of(route.gateway)
                         : "names no router";
  return "The kernel's default route of " + family + " over " + route.interface + " " + has +
         ": for other networks write a router of " + family + " into gateway.";
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
  std::string out = "# The kernel must not have those of these addresses that the port has:\n";
  for (const auto* addresses : {&use.addresses, &use.left_out}) {
    for (const std::string& address : *addresses) {
      for (const std::string& name : nic.interfaces) {
        out += "#   ip address del " + address + " dev " + name + "\n";
      }
    }
  }
  return out +
         "# Also take them out of the network configuration (netplan, cloud-init), which sets "
         "them\n"
         "# again at boot.\n";
}

std::string address_lines(const InterfaceUse& use) {
  if (use.addresses.empty()) {
    return "# The kernel had no address on it: write this host's address and its network here.\n"
           "#address = \"10.9.0.1/24\"\n";
  }
  std::string out = "address = " + value_of(use.addresses) + "\n";
  if (use.left_out.empty()) return out;
  out += "# A port has " + std::to_string(kAddressesMax) + " addresses at most. Left out:\n";
  for (const std::string& address : use.left_out) out += "#   " + address + "\n";
  return out;
}

std::string router_lines(const InterfaceUse& use) {
  std::string out;
  if (!use.gateways.empty()) out += "gateway = " + value_of(use.gateways) + "\n";
  if (use.advertised_router.empty()) return out;
  return out + "# The kernel learned the IPv6 router " + use.advertised_router +
         " from router advertisements.\n"
         "# A port on AF_XDP gets none: there write it as gateway in place of accept_ra.\n"
         "accept_ra = true\n";
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

void take_addresses(const std::vector<std::string>& names,
                    const std::vector<machine::OwnAddress>& all, InterfaceUse& use) {
  std::vector<std::string> taken;
  for (const machine::OwnAddress& own : all) {
    if (!is_among(names, own.interface) || machine::is_link_local(own.address)) continue;
    if (own.passing.empty()) {
      taken.push_back(with_prefix(own));
    } else {
      use.notes.push_back("Left out: " + with_prefix(own) + ", which is " + own.passing + ".");
    }
  }
  const auto is_of_other_family = [&](const std::string& address) {
    return is_v4_text(address) != is_v4_text(taken.front());
  };
  // Without an address of a family, its peers and routers are out of reach: the first one of the
  // other family takes the last place where all before it are of one.
  const auto other = std::ranges::find_if(taken, is_of_other_family);
  const auto places_end = taken.begin() + std::min<ptrdiff_t>(std::ssize(taken), kAddressesMax);
  if (other != taken.end() && other >= places_end) std::rotate(places_end - 1, other, other + 1);
  use.left_out.assign(places_end, taken.end());
  taken.erase(places_end, taken.end());
  use.addresses = std::move(taken);
}

void take_routers(const std::vector<std::string>& names, const std::vector<machine::Route>& routes,
                  InterfaceUse& use) {
  for (const bool is_v4 : {true, false}) {
    bool has_family = false, has_lone = false;
    for (const std::string& address : use.addresses) {
      if (is_v4_text(address) != is_v4) continue;
      has_family = true;
      has_lone = has_lone || is_lone(address);
    }
    const auto* route = has_family ? router_route(names, routes, is_v4, has_lone) : nullptr;
    if (route == nullptr) continue;
    if (!machine::has_gateway(*route)) {
      use.notes.push_back(why_no_gateway(*route));
    } else if (route->is_learned && machine::is_default(*route)) {
      use.advertised_router = machine::text_of(route->gateway);
    } else {
      use.gateways.push_back(machine::text_of(route->gateway));
    }
  }
}

InterfaceUse interface_use(const std::vector<std::string>& names, const machine::Roots& roots) {
  InterfaceUse use;
  take_addresses(names, machine::own_addresses(), use);
  take_routers(names, machine::read_routing(roots).routes, use);
  for (const std::string& name : names) {
    const std::string folder = roots.sys + "/class/net/" + name;
    use.mtu_bytes = positive_number(folder + "/mtu");
    use.speed_mbps = std::max(use.speed_mbps, positive_number(folder + "/speed"));
  }
  return use;
}

std::string port_section(const NicState& state, const InterfaceUse& use) {
  const machine::Nic& nic = state.nic;
  std::string out = "\n[[port]]\n";
  if (stays_with_kernel(nic) && !use.addresses.empty()) out += kept_addresses(nic, use);
  out += "name = \"" + (nic.interfaces.empty() ? "rail0" : nic.interfaces.front()) + "\"\n";
  out += "device = \"" + state.device + "\"\n";
  out += speed_of_port(nic, use.speed_mbps);
  out += address_lines(use) + router_lines(use);
  for (const std::string& note : use.notes) out += "# " + note + "\n";
  if (use.mtu_bytes > 0) out += "mtu = " + std::to_string(use.mtu_bytes) + "\n";
  return out;
}

void print_section(const std::string& section, std::ostream& out, std::ostream& instead) {
  if (out << section << std::flush) return;
  instead << "the section of lyred.toml was not written to standard output:\n" << section;
}

}  // namespace lyre::tools
