#pragma once

#include <cstdint>

#include "stack/base/ip_address.h"
#include "stack/base/mac_address.h"

/// The well-known IPv6 addresses that a host must recognise, and addresses derived from its own
/// (RFC 4291 2.8).
namespace lyre {

/// ff02::1 and ff02::2.
inline constexpr IpAddress kAllNodes{{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
inline constexpr IpAddress kAllRouters{{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

constexpr bool is_ipv6_multicast(const IpAddress& address) { return address.bytes[0] == 0xff; }

constexpr bool is_ipv6_link_local(const IpAddress& address) {
  return address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0) == 0x80;
}

constexpr bool is_ipv6_loopback(const IpAddress& address) {
  for (unsigned i = 0; i < 15; ++i) {
    if (address.bytes[i] != 0) return false;
  }
  return address.bytes[15] == 1;
}

/// RFC 4291 2.7.1: ff02::1:ffXX:XXXX, the group to which neighbours send solicitations for
/// `address`.
constexpr IpAddress solicited_node_group(const IpAddress& address) {
  IpAddress out{{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff}};
  for (unsigned i = 13; i < 16; ++i) out.bytes[i] = address.bytes[i];
  return out;
}

/// RFC 4291 2.5.6 and appendix A: fe80:: with the modified EUI-64 of `mac`.
constexpr IpAddress link_local_address(const MacAddress& mac) {
  IpAddress out{{0xfe, 0x80}};
  const auto& m = mac.bytes;
  const uint8_t id[8] = {static_cast<uint8_t>(m[0] ^ 2), m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
  for (unsigned i = 0; i < 8; ++i) out.bytes[8 + i] = id[i];
  return out;
}

/// RFC 2464 7: the Ethernet destination of packets to a multicast group.
constexpr MacAddress multicast_mac(const IpAddress& group) {
  const auto& g = group.bytes;
  return {{0x33, 0x33, g[12], g[13], g[14], g[15]}};
}

}  // namespace lyre
