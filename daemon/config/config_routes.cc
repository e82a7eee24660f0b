#include "daemon/config/config_routes.h"

#include <algorithm>
#include <string>

#include "stack/base/ipv6_address.h"
#include "stack/wire/ipv6.h"

namespace lyre {
namespace {

constexpr uint32_t kLinkLocalBits = 64;
constexpr uint32_t kHostBits = 128;

bool has_family_of(const PortConfig& port, const IpAddress& address) {
  const auto is_it = [&](const Cidr& own) { return own.address.is_v4() == address.is_v4(); };
  return std::any_of(port.addresses.begin(), port.addresses.end(), is_it);
}

/// True for another host of one of the port's networks. A port with IPv6 has a link-local network.
bool is_neighbour(const IpAddress& address, const PortConfig& port) {
  if (has_address(port, address)) return false;
  if (!address.is_v4() && is_ipv6_link_local(address)) return has_family_of(port, address);
  const auto is_in = [&](const Cidr& own) {
    return own.interface().has_on_link(address) && is_host_address({address, own.prefix_bits});
  };
  return std::any_of(port.addresses.begin(), port.addresses.end(), is_in);
}

/// A /32 or /128: clouds assign such addresses, with a router outside of them.
bool has_lone_address(const PortConfig& port, bool is_v4) {
  const auto is_it = [&](const Cidr& own) {
    return own.address.is_v4() == is_v4 && own.interface().prefix_bits == kHostBits;
  };
  return std::any_of(port.addresses.begin(), port.addresses.end(), is_it);
}

/// Whether the port can reach a router at this address without another router.
bool may_have_router(const PortConfig& port, const IpAddress& address) {
  return has_lone_address(port, address.is_v4()) || is_neighbour(address, port);
}

/// Workers send nothing to the network address and the broadcast address of any port's network.
bool is_broadcast_of(const PortConfig& port, const IpAddress& address) {
  const auto is_it = [&](const Cidr& own) {
    return own.address.is_v4() && own.interface().has_on_link(address) &&
           !is_host_address({address, own.prefix_bits});
  };
  return std::any_of(port.addresses.begin(), port.addresses.end(), is_it);
}

/// Length of the longest prefix by which the port reaches its router without another router. Units:
/// of 128.
uint32_t on_link_bits(const PortConfig& port, const IpAddress& router) {
  uint32_t bits = 0;
  if (!router.is_v4() && is_ipv6_link_local(router)) bits = kLinkLocalBits;
  for (const Cidr& own : port.addresses) {
    const InterfaceAddress network = own.interface();
    if (network.has_on_link(router)) bits = std::max<uint32_t>(bits, network.prefix_bits);
  }
  return bits > 0 ? bits : kHostBits;
}

class NetworkCheck {
 public:
  NetworkCheck(const Config& config, const Complain& complain)
      : config_(config), complain_(complain) {}

  void run() const {
    for (const PortConfig& port : config_.ports) {
      check_addresses(port);
      check_reach(port);
      for (const IpAddress& gateway : port.gateways) check_gateway(port, gateway);
      check_ipv6(port);
    }
  }

  /// Why no router of `port` can have this address on this host; "": one can.
  std::string why_no_router(const IpAddress& address, const PortConfig& port) const {
    if (has_address(port, address)) return "is the port's own address";
    for (const PortConfig& other : config_.ports) {
      if (has_address(other, address)) return "is an address of the port '" + other.name + "'";
      if (is_broadcast_of(other, address)) {
        return "is the broadcast or network address of the port '" + other.name + "'";
      }
    }
    return may_have_router(port, address) ? "" : "does not lie in its network";
  }

 private:
  void check_addresses(const PortConfig& port) const {
    for (const Cidr& own : port.addresses) {
      for (const PortConfig& other : config_.ports) {
        if (!is_broadcast_of(other, own.address)) continue;
        return complain_(port.lines.of("address"), "port.address",
                         "of '" + port.name + "' is the broadcast or network address of '" +
                             other.name + "', allowed: addresses of hosts there");
      }
    }
  }

  void check_reach(const PortConfig& port) const {
    const auto is_lone = [](const Cidr& own) { return own.interface().prefix_bits == kHostBits; };
    const auto is_over_it = [&](const RouteConfig& route) { return route.port_name == port.name; };
    if (!port.gateways.empty() || port.accepts_routers) return;
    if (std::any_of(config_.routes.begin(), config_.routes.end(), is_over_it)) return;
    if (!std::all_of(port.addresses.begin(), port.addresses.end(), is_lone)) return;
    complain_(port.lines.of("address"), "port.address",
              "of '" + port.name +
                  "' has no network (/32, /128) and no router, so it reaches nobody, allowed: "
                  "port.gateway, "
                  "or an address with its network's prefix");
  }

  void check_gateway(const PortConfig& port, const IpAddress& gateway) const {
    const std::string why = why_no_router(gateway, port);
    if (why.empty()) return;
    const bool is_outside_allowed = has_lone_address(port, gateway.is_v4());
    complain_(port.lines.of("gateway"), "port.gateway",
              "'" + address_text(gateway) + "' of '" + port.name + "' " + why +
                  ", allowed: another host" + (is_outside_allowed ? "" : " of its network"));
  }

  void check_ipv6(const PortConfig& port) const {
    const bool has_ipv6 = has_family_of(port, IpAddress{});
    if (has_ipv6 && port.mtu_bytes < wire::kIpv6MtuBytesMin) {
      return complain_(port.lines.of("mtu"), "port.mtu",
                       "of '" + port.name + "' is less than IPv6 needs, allowed: " +
                           std::to_string(wire::kIpv6MtuBytesMin) +
                           " and more, or addresses of IPv4");
    }
    if (!has_ipv6 && port.accepts_routers) {
      return complain_(
          port.lines.of("accept_ra"), "port.accept_ra",
          "of '" + port.name + "' is of no use without an address of IPv6, allowed: false");
    }
  }

  const Config& config_;
  const Complain& complain_;
};

class RouteCheck {
 public:
  RouteCheck(Config& config, const Complain& complain) : config_(config), complain_(complain) {}

  void run() {
    bool are_right = true;
    for (RouteConfig& route : config_.routes) are_right = check(route) && are_right;
    if (!are_right) return;  // what is compared now needs the ports of all routes
    for (const RouteConfig& route : config_.routes) check_contents(route);
  }

 private:
  bool refuse(const RouteConfig& route, std::string_view key, const std::string& text) const {
    complain_(route.lines.of(key), "route." + std::string(key), text);
    return false;
  }

  bool check(RouteConfig& route) const {
    const auto is_it = [&](const PortConfig& port) { return port.name == route.port_name; };
    const auto port = std::find_if(config_.ports.begin(), config_.ports.end(), is_it);
    if (port == config_.ports.end()) {
      return refuse(route, "port",
                    "'" + route.port_name + "' is not a port, allowed: " + port_names(config_));
    }
    route.port = static_cast<uint32_t>(port - config_.ports.begin());
    if (route.gateway.is_v4() != route.network.address.is_v4()) {
      return refuse(route, "via",
                    "and route.to are of different families, allowed: two of one family");
    }
    const std::string why = NetworkCheck(config_, complain_).why_no_router(route.gateway, *port);
    if (!why.empty()) {
      return refuse(route, "via",
                    "'" + address_text(route.gateway) + "' of the port '" + port->name + "' " +
                        why + ", allowed: addresses of routers there");
    }
    if (!is_reached_already(route, *port)) return true;
    return refuse(route, "to",
                  "is reached through '" + port->name +
                      "' without this route already, allowed: further networks");
  }

  /// True when the network is the port's own, a gateway, behind a default gateway, or an earlier
  /// route.
  bool is_reached_already(const RouteConfig& route, const PortConfig& port) const {
    const bool is_v4 = route.network.address.is_v4();
    for (const IpAddress& gateway : port.gateways) {
      if (route.network.prefix_bits == 0 && gateway.is_v4() == is_v4) return true;
      if (route.network.interface() == InterfaceAddress{gateway, kHostBits}) return true;
    }
    if (!is_v4 && is_ipv6_link_local(route.network.address)) return true;
    for (const Cidr& own : port.addresses) {
      if (route.network.prefix_bits == own.prefix_bits &&
          own.interface().has_on_link(route.network.address)) {
        return true;
      }
    }
    for (const RouteConfig& earlier : config_.routes) {
      if (&earlier == &route) return false;
      if (earlier.port == route.port && earlier.network == route.network) return true;
    }
    return false;
  }

  /// A part of the port's own network may have a router, but no router of the port may lie in it:
  /// packets for that router would go to another one, or to itself. A router outside the port's
  /// networks has an on-link route of one host, so that only its own address must not be a route's.
  void check_contents(const RouteConfig& route) const {
    const PortConfig& port = config_.ports[route.port];
    std::vector<IpAddress> routers = port.gateways;
    for (const RouteConfig& other : config_.routes) {
      if (other.port == route.port) routers.push_back(other.gateway);
    }
    const InterfaceAddress to = route.network.interface();
    for (const IpAddress& router : routers) {
      if (!to.has_on_link(router) || to.prefix_bits < on_link_bits(port, router)) continue;
      return complain_(route.lines.of("to"), "route.to",
                       "contains the router " + address_text(router) + " of '" + port.name +
                           "', allowed: networks without routers of that port");
    }
  }

  Config& config_;
  const Complain& complain_;
};

}  // namespace

bool has_address(const PortConfig& port, const IpAddress& address) {
  const auto is_it = [&](const Cidr& own) { return own.address == address; };
  return std::any_of(port.addresses.begin(), port.addresses.end(), is_it);
}

void check_networks(const Config& config, const Complain& complain) {
  NetworkCheck(config, complain).run();
}

void complete_routes(Config& config, const Complain& complain) {
  RouteCheck(config, complain).run();
}

}  // namespace lyre
