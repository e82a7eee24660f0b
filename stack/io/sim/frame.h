#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "stack/base/checksum.h"

namespace lyre::io::sim {

inline constexpr size_t kIpAt = 14;
inline constexpr uint8_t kProtocolTcp = 6;
inline constexpr uint8_t kCongestionExperienced = 3;

/// A big-endian field of a header.
inline uint32_t get16(const uint8_t* at) { return (uint32_t{at[0]} << 8) | at[1]; }

inline bool is_ipv4(std::span<const uint8_t> frame) {
  return frame.size() >= kIpAt + 20 && frame[12] == 0x08 && frame[13] == 0x00;
}
inline bool is_ipv6(std::span<const uint8_t> frame) {
  return frame.size() >= kIpAt + 40 && frame[12] == 0x86 && frame[13] == 0xdd;
}

/// Whether an Ethernet frame contains TCP directly after its IP header.
inline bool is_tcp(std::span<const uint8_t> frame) {
  if (is_ipv4(frame)) return frame[kIpAt + 9] == kProtocolTcp;
  return is_ipv6(frame) && frame[kIpAt + 6] == kProtocolTcp;
}

/// RFC 3168 5: sets CE on an ECN-capable packet, and leaves others unchanged.
inline void mark_congestion(std::span<uint8_t> frame) {
  if (is_ipv6(frame)) {
    uint8_t& low_class = frame[kIpAt + 1];
    if ((low_class & 0x30) != 0) low_class |= kCongestionExperienced << 4;
    return;
  }
  if (!is_ipv4(frame) || (frame[kIpAt + 1] & 3) == 0) return;
  frame[kIpAt + 1] |= kCongestionExperienced;
  const size_t header_bytes = (frame[kIpAt] & 0x0fu) * 4u;
  if (header_bytes < 20 || kIpAt + header_bytes > frame.size()) return;
  frame[kIpAt + 10] = frame[kIpAt + 11] = 0;
  ChecksumSum sum;
  sum.add(frame.subspan(kIpAt, header_bytes));
  const uint16_t folded = sum.finish();
  std::memcpy(frame.data() + kIpAt + 10, &folded, sizeof folded);
}

}  // namespace lyre::io::sim
