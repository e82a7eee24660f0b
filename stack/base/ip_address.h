#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>

namespace lyre {

/// A 128-bit address in network byte order. IPv4 is stored as ::ffff:a.b.c.d (RFC 4291 2.5.5.2).
/// Every interface, ABI and handle uses this type, so none of them depends on the family.
struct IpAddress {
  std::array<uint8_t, 16> bytes{};

  static constexpr IpAddress v4(uint32_t host_order) {
    IpAddress out;
    out.bytes[10] = out.bytes[11] = 0xff;
    for (unsigned i = 0; i < 4; ++i) {
      out.bytes[12 + i] = static_cast<uint8_t>(host_order >> (24 - 8 * i));
    }
    return out;
  }
  constexpr bool is_v4() const {
    for (unsigned i = 0; i < 10; ++i) {
      if (bytes[i] != 0) return false;
    }
    return bytes[10] == 0xff && bytes[11] == 0xff;
  }
  /// Only meaningful when is_v4().
  constexpr uint32_t as_v4() const {
    return (uint32_t{bytes[12]} << 24) | (uint32_t{bytes[13]} << 16) | (uint32_t{bytes[14]} << 8) |
           uint32_t{bytes[15]};
  }
  constexpr bool is_unspecified() const {
    if (is_v4()) return as_v4() == 0;
    for (uint8_t byte : bytes) {
      if (byte != 0) return false;
    }
    return true;
  }
  friend constexpr auto operator<=>(const IpAddress&, const IpAddress&) = default;
};
static_assert(sizeof(IpAddress) == 16);

/// True for an IPv4 address that a host can have: not in 0/8 or 127/8, no group, and not the
/// limited broadcast. 240.0.0.0/4, the former class E, is included: clouds assign it.
constexpr bool is_ipv4_unicast(uint32_t host_order) {
  const uint32_t first = host_order >> 24;
  const bool is_group = first >> 4 == 14;
  return first != 0 && first != 127 && !is_group && host_order != 0xffffffffu;
}

/// Units: `port` in host byte order.
struct Endpoint {
  IpAddress address;
  uint16_t port = 0;
  friend constexpr auto operator<=>(const Endpoint&, const Endpoint&) = default;
};

/// One connection as this host sees it.
struct FourTuple {
  Endpoint local;
  Endpoint remote;
  friend constexpr auto operator<=>(const FourTuple&, const FourTuple&) = default;
};

}  // namespace lyre
