#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace lyre {

/// An Ethernet address in wire order.
struct MacAddress {
  std::array<uint8_t, 6> bytes{};

  constexpr bool is_group() const { return (bytes[0] & 1) != 0; }  ///< multicast or broadcast
  friend constexpr bool operator==(const MacAddress&, const MacAddress&) = default;
};

inline constexpr MacAddress kMacBroadcast{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

/// As `02:00:00:00:00:01`.
std::string mac_text(std::span<const uint8_t, 6> mac);

}  // namespace lyre
