#pragma once

#include <array>
#include <cstdint>

/// MTUs of paths. Units: bytes of an IP packet.
namespace lyre {

/// RFC 1122 3.3.3: what every IPv4 path is assumed to carry.
inline constexpr uint32_t kIpv4PathMtuMin = 576;

/// RFC 4821 7.3, RFC 8899 5.3.2: what TCP's search tries where a path drops large packets. IPv6's
/// minimum, tunnels, VXLAN over Ethernet, Ethernet, Azure's NICs by MANA, jumbo frames between and
/// in clouds. A path may carry more than the last that arrived.
inline constexpr std::array<uint16_t, 7> kPathMtuSteps = {1280, 1400, 1450, 1500, 3900, 8500, 8896};

}  // namespace lyre
