#pragma once

#include <cstdint>

/// What IPv4 and IPv6 headers have in common.
namespace lyre::wire {

inline constexpr uint8_t kIpProtocolIcmp = 1;
inline constexpr uint8_t kIpProtocolTcp = 6;
inline constexpr uint8_t kIpProtocolIcmpv6 = 58;

/// RFC 3168 5: the ECN field.
enum class Ecn : uint8_t { kNotEct = 0, kEct1 = 1, kEct0 = 2, kCe = 3 };

}  // namespace lyre::wire
