#pragma once

#include <cstdint>

namespace lyre {

/// What a sender chooses of the IP headers of a connection (RFC 9293 3.9.2, MUST-48 and MUST-49).
struct IpMarking {
  uint8_t dscp = 0;        ///< RFC 2474 3: six bits
  uint8_t hop_limit = 64;  ///< IPv4: TTL
};

}  // namespace lyre
