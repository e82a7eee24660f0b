#include "stack/ip/route_table.h"

#include <type_traits>

#include "stack/base/ipv6_address.h"

namespace lyre::ip {
namespace {

constexpr uint8_t kAddressBits = 128;
constexpr uint32_t kLimitedBroadcast = 0xffffffffu;

/// All ones or all zeros after a prefix that leaves room for both (a /31 does not, RFC 3021).
bool is_broadcast_in(const IpAddress& address, const IpAddress& own, uint8_t bits) {
  if (!own.is_v4() || bits < 96 || bits > 126) return false;
  const uint32_t host_mask = static_cast<uint32_t>((uint64_t{1} << (kAddressBits - bits)) - 1);
  if (((address.as_v4() ^ own.as_v4()) & ~host_mask) != 0) return false;
  const uint32_t host = address.as_v4() & host_mask;
  return host == 0 || host == host_mask;
}

const IpAddress& next_hop_of(const IpAddress& gateway, const IpAddress& destination) {
  return gateway.is_unspecified() ? destination : gateway;
}

}  // namespace

static_assert(std::is_trivially_copyable_v<RouteTable>);

/// The prefix ::/0 also covers every v4-mapped address, but it is a route of IPv6 only.
bool Prefix::contains(const IpAddress& other) const {
  return (bits >= 96 || !other.is_v4()) && share_prefix(address, other, bits);
}

bool RouteTable::add_address(uint8_t port, const IpAddress& address, uint8_t prefix_bits) {
  if (prefix_bits > kAddressBits || own_.full() || routes_.full() || is_own(address)) return false;
  own_.push({address, prefix_bits, port});
  // A second address in the same prefix of the same port uses the first one's route.
  insert({{address, prefix_bits}, IpAddress{}, address, port});
  return true;
}

bool RouteTable::add_route(const Prefix& destination, const IpAddress& gateway, uint8_t port) {
  const Route* via = best_route_of_port(port, gateway);
  if (destination.bits > kAddressBits || is_own(gateway) || is_broadcast(gateway)) return false;
  if (via == nullptr || !via->gateway.is_unspecified()) return false;
  return insert({destination, gateway, source_through(*via), port});
}

/// What leaves through `via`, the network of a gateway, is from the address in that network. But an
/// IPv4 address with a prefix of 32 bits is in no network, so it is there for routed packets: as
/// the first one of its port it is the source.
const IpAddress& RouteTable::source_through(const Route& via) const {
  const OwnAddress* first = address_of_port(via.port, true);
  const bool is_host_address = first != nullptr && first->prefix_bits == kAddressBits;
  return via.source.is_v4() && is_host_address ? first->address : via.source;
}

bool RouteTable::add_on_link(const Prefix& prefix, uint8_t port) {
  const OwnAddress* own = address_of_port(port, prefix.address.is_v4());
  if (own == nullptr || prefix.bits > kAddressBits) return false;
  return insert({prefix, IpAddress{}, own->address, port});
}

std::optional<RouteResult> RouteTable::lookup(const IpAddress& destination) const {
  if (const OwnAddress* own = find_own(destination)) {
    return RouteResult{own->port, true, destination, destination};
  }
  const Route* route = is_unicast_target(destination) ? best_route(destination) : nullptr;
  if (route == nullptr) return std::nullopt;
  return RouteResult{route->port, false, next_hop_of(route->gateway, destination),
                     source_for(*route, destination)};
}

std::optional<RouteResult> RouteTable::lookup_from(const IpAddress& source,
                                                   const IpAddress& destination) const {
  const OwnAddress* from = find_own(source);
  if (source.is_v4() != destination.is_v4()) return std::nullopt;
  if (from == nullptr) return std::nullopt;
  if (is_own(destination)) return RouteResult{from->port, true, destination, source};
  if (!is_unicast_target(destination)) return std::nullopt;
  const Route* route = best_route_of_port(from->port, destination);
  if (route == nullptr) return std::nullopt;
  return RouteResult{from->port, false, next_hop_of(route->gateway, destination), source};
}

std::optional<uint8_t> RouteTable::port_of(const IpAddress& address) const {
  const OwnAddress* own = find_own(address);
  return own == nullptr ? std::nullopt : std::optional(own->port);
}

bool RouteTable::is_own(const IpAddress& address) const { return find_own(address) != nullptr; }

bool RouteTable::accepts(const IpAddress& address) const {
  const OwnAddress* own = find_own(address);
  return own != nullptr && own->state == link::AddressState::kUsable;
}

bool RouteTable::is_lost(const IpAddress& address) const {
  for (const OwnAddress& own : own_) {
    if (own.address == address) return own.state == link::AddressState::kDuplicate;
  }
  return false;
}

/// RFC 4291 2.8: all nodes, and the solicited-node group of each address. The group is joined while
/// the address is tentative as well, because another host would send its probes there.
bool RouteTable::is_joined(const IpAddress& group) const {
  if (group == kAllNodes) return true;
  for (const OwnAddress& own : own_) {
    if (own.address.is_v4() || own.state == link::AddressState::kDuplicate) continue;
    if (group == solicited_node_group(own.address)) return true;
  }
  return false;
}

void RouteTable::set_state(const IpAddress& address, link::AddressState state) {
  for (OwnAddress& own : own_) {
    if (own.address == address) own.state = state;
  }
}

void RouteTable::set_default_router(uint8_t port, const std::optional<IpAddress>& router) {
  for (size_t i = 0; i < routes_.size(); ++i) {
    if (!routes_[i].is_learned || routes_[i].port != port) continue;
    if (routes_[i].gateway == router) return;
    for (size_t at = i + 1; at < routes_.size(); ++at) routes_[at - 1] = routes_[at];
    routes_.pop_back();
    ++generation_;
    break;
  }
  if (!router) return;
  Route route{.prefix = {}, .gateway = *router, .port = port};
  route.is_learned = true;
  insert(route);
}

bool RouteTable::is_broadcast(const IpAddress& address) const {
  if (!address.is_v4()) return false;
  if (address.as_v4() == kLimitedBroadcast) return true;
  for (const OwnAddress& own : own_) {
    if (is_broadcast_in(address, own.address, own.prefix_bits)) return true;
  }
  return false;
}

bool RouteTable::is_martian_source(const IpAddress& address) const {
  return is_own(address) || !is_unicast_target(address);
}

bool RouteTable::is_unicast_target(const IpAddress& address) const {
  if (address.is_unspecified() || is_broadcast(address)) return false;
  if (address.is_v4()) return is_ipv4_unicast(address.as_v4());
  return !is_ipv6_multicast(address) && !is_ipv6_loopback(address);
}

/// Keeps routes_ sorted by prefix length; equal lengths keep the order of insertion.
bool RouteTable::insert(const Route& route) {
  if (routes_.full()) return false;
  ++generation_;
  size_t at = 0;
  while (at < routes_.size() && routes_[at].prefix.bits >= route.prefix.bits) {
    const Route& other = routes_[at++];
    const bool is_same_prefix =
        other.prefix.bits == route.prefix.bits && other.prefix.contains(route.prefix.address);
    if (is_same_prefix && other.port == route.port) return false;
  }
  routes_.push(route);
  for (size_t i = routes_.size() - 1; i > at; --i) routes_[i] = routes_[i - 1];
  routes_[at] = route;
  return true;
}

const RouteTable::Route* RouteTable::best_route(const IpAddress& destination) const {
  for (const Route& route : routes_) {
    if (route.prefix.contains(destination)) return &route;
  }
  return nullptr;
}

const RouteTable::Route* RouteTable::best_route_of_port(uint8_t port,
                                                        const IpAddress& destination) const {
  for (const Route& route : routes_) {
    if (route.port == port && route.prefix.contains(destination)) return &route;
  }
  return nullptr;
}

/// An address that another host has is not ours, even if it is configured.
const RouteTable::OwnAddress* RouteTable::find_own(const IpAddress& address) const {
  for (const OwnAddress& own : own_) {
    if (own.address != address) continue;
    return own.state == link::AddressState::kDuplicate ? nullptr : &own;
  }
  return nullptr;
}

const RouteTable::OwnAddress* RouteTable::address_of_port(uint8_t port, bool is_v4) const {
  for (const OwnAddress& own : own_) {
    if (own.port == port && own.address.is_v4() == is_v4) return &own;
  }
  return nullptr;
}

/// An IPv4 route has its source address. An IPv6 route through a link-local router needs a source
/// other than the link-local address of that network.
IpAddress RouteTable::source_for(const Route& route, const IpAddress& destination) const {
  if (destination.is_v4()) return route.source;
  IpAddress best = route.source;
  uint32_t best_rank = 0;
  for (const OwnAddress& own : own_) {
    if (own.port != route.port || own.address.is_v4()) continue;
    if (own.state == link::AddressState::kDuplicate) continue;
    const uint32_t rank = source_rank(own.address, destination);
    if (rank <= best_rank) continue;
    best = own.address;
    best_rank = rank;
  }
  return best;
}

}  // namespace lyre::ip
