#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "stack/base/bounded_vector.h"
#include "stack/base/interface_address.h"
#include "stack/base/ip_address.h"
#include "stack/link/ndp.h"

namespace lyre::ip {

inline constexpr size_t kOwnAddressesMax = link::kPortsMax * kPortAddressesMax;
/// Room for all that a configuration may name: the networks of own addresses, gateways, routes, and
/// learned routers.
inline constexpr size_t kRoutesMax = 168;

/// A prefix. Units: `bits` of 128, so an IPv4 /24 is 120.
struct Prefix {
  IpAddress address;
  uint8_t bits = 0;

  static constexpr Prefix v4(const IpAddress& address, uint8_t v4_bits) {
    return {address, static_cast<uint8_t>(96 + v4_bits)};
  }
  /// From the usual notation: `bits` is the prefix length, of 32 for IPv4 or of 128 for IPv6.
  static constexpr Prefix of(const IpAddress& address, uint32_t bits) {
    return {address, InterfaceAddress::of(address, bits).prefix_bits};
  }
  /// The prefix that contains every address of the family of `address`.
  static constexpr Prefix all_of_family(const IpAddress& address) {
    return address.is_v4() ? v4(IpAddress::v4(0), 0) : Prefix{};
  }
  bool contains(const IpAddress& other) const;
  friend constexpr bool operator==(const Prefix&, const Prefix&) = default;
};

/// The port and the next hop of a packet.
struct RouteResult {
  uint8_t port = 0;
  bool is_local = false;  ///< the destination is an address of ours
  IpAddress next_hop;     ///< the neighbour to resolve; the destination itself when on-link
  IpAddress source;       ///< the source address to use for the destination
};

/// Own addresses and routes of both families: longest prefix match over a small vector.
/// Plain data: copying it hands it to another worker. Thread: one.
class RouteTable {
 public:
  struct Route {
    Prefix prefix;
    IpAddress gateway;  ///< unspecified: directly connected
    IpAddress source;
    uint8_t port = 0;
    bool is_learned = false;  ///< from a router's advertisement
  };

  /// Adds an own address on `port`; its prefix is directly connected. False: full, or already
  /// added.
  bool add_address(uint8_t port, const IpAddress& address, uint8_t prefix_bits);
  /// Packets for `destination` go through `port` to `gateway`, which must be on a connected prefix
  /// of that port (or be given its own /128 by add_on_link). The source of IPv4 packets is the
  /// port's first IPv4 address where that is a /32, or else the address in the gateway's prefix.
  /// False: full, the gateway cannot be reached directly, or the port has a route of this prefix.
  bool add_route(const Prefix& destination, const IpAddress& gateway, uint8_t port);
  /// Sets or clears the IPv6 default router that `port` has learned. A configured default route
  /// takes precedence.
  void set_default_router(uint8_t port, const std::optional<IpAddress>& router);
  /// Sets the state of an own address. Addresses are usable at first.
  void set_state(const IpAddress& address, link::AddressState state);
  /// `prefix` is on-link on `port` although it is not the prefix of the port's address, such as the
  /// gateway of a cloud that assigns /32 addresses. False: full, or `port` has no address.
  bool add_on_link(const Prefix& prefix, uint8_t port);

  /// Empty when there is no route, and for a destination to which no TCP packet may be sent.
  std::optional<RouteResult> lookup(const IpAddress& destination) const;
  /// As lookup(), through the port of `source`, an own address, only: a connection stays on its
  /// port, and cloud networks drop packets that leave through another.
  std::optional<RouteResult> lookup_from(const IpAddress& source,
                                         const IpAddress& destination) const;
  bool is_own(const IpAddress& address) const;
  /// The port of an own address.
  std::optional<uint8_t> port_of(const IpAddress& address) const;
  /// True for an own address at which packets are accepted.
  bool accepts(const IpAddress& address) const;
  /// True for a configured address that another host has.
  bool is_lost(const IpAddress& address) const;
  /// The longest prefix first.
  std::span<const Route> routes() const { return {routes_.begin(), routes_.size()}; }
  /// Changes whenever routes() changes.
  uint32_t generation() const { return generation_; }
  /// True for an IPv6 multicast group that this host has joined.
  bool is_joined(const IpAddress& group) const;
  /// True for the limited broadcast, and for the directed one (or the old all-zeros one) of a
  /// connected prefix.
  bool is_broadcast(const IpAddress& address) const;
  /// RFC 1122 3.2.1.3, RFC 6890: an address that can never be the source of a received packet.
  bool is_martian_source(const IpAddress& address) const;

 private:
  struct OwnAddress {
    IpAddress address;
    uint8_t prefix_bits = 0;
    uint8_t port = 0;
    link::AddressState state = link::AddressState::kUsable;
  };
  bool insert(const Route& route);
  bool is_unicast_target(const IpAddress& address) const;
  const Route* best_route(const IpAddress& destination) const;
  const Route* best_route_of_port(uint8_t port, const IpAddress& destination) const;
  const OwnAddress* find_own(const IpAddress& address) const;
  /// The first one of the family.
  const OwnAddress* address_of_port(uint8_t port, bool is_v4) const;
  const IpAddress& source_through(const Route& via) const;
  IpAddress source_for(const Route& route, const IpAddress& destination) const;

  BoundedVector<OwnAddress, kOwnAddressesMax> own_;
  BoundedVector<Route, kRoutesMax> routes_;  ///< longest prefix first
  uint32_t generation_ = 0;
};

}  // namespace lyre::ip
