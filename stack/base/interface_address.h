#pragma once

#include <cstdint>

#include "stack/base/ip_address.h"
#include "stack/base/ipv6_address.h"

namespace lyre {

/// Addresses that one port can have, including derived ones (link-local).
inline constexpr size_t kPortAddressesMax = 8;

/// True when the first `bits` of the 128 bits are the same.
constexpr bool share_prefix(const IpAddress& a, const IpAddress& b, uint32_t bits) {
  for (uint32_t i = 0; i < 16 && bits > 0; ++i) {
    const uint32_t here = bits < 8 ? bits : 8;
    if ((a.bytes[i] ^ b.bytes[i]) >> (8 - here) != 0) return false;
    bits -= here;
  }
  return true;
}

/// An address of a port and its on-link prefix.
struct InterfaceAddress {
  IpAddress address;
  uint8_t prefix_bits = 0;  ///< of 128, so an IPv4 /24 is 120

  /// From the usual notation: `bits` is the prefix length, of 32 for IPv4 or of 128 for IPv6.
  static constexpr InterfaceAddress of(const IpAddress& address, uint32_t bits) {
    return {address, static_cast<uint8_t>(address.is_v4() ? 96 + bits : bits)};
  }
  constexpr bool has_on_link(const IpAddress& other) const {
    return address.is_v4() == other.is_v4() && share_prefix(address, other, prefix_bits);
  }
  friend constexpr bool operator==(const InterfaceAddress&, const InterfaceAddress&) = default;
};

/// RFC 6724 5, rules 2 and 8: among the IPv6 source addresses that can be used towards `peer`, the
/// one with the highest rank is selected: the same scope first, then the longest common prefix.
constexpr uint32_t source_rank(const IpAddress& own, const IpAddress& peer) {
  const bool wants_link_local = is_ipv6_link_local(peer) || is_ipv6_multicast(peer);
  uint32_t rank = is_ipv6_link_local(own) == wants_link_local ? 200 : 1;
  for (uint32_t bits = 1; bits <= 128 && share_prefix(own, peer, bits); ++bits) ++rank;
  return rank;
}

}  // namespace lyre
