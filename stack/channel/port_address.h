#pragma once

#include <cstdint>

namespace lyre::channel {

inline constexpr uint32_t kPortAddressesMax = 8;

/// One address of a port, as messages and the stats segment contain it.
struct PortAddress {
  uint8_t address[16];   ///< as IpAddress
  uint32_t prefix_bits;  ///< of 32, or of 128 for IPv6
};

}  // namespace lyre::channel
