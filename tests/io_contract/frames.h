#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stack/io/packet_io.h"

namespace lyre::io::contract {

inline constexpr uint32_t kHeaderBytes = 14 + 20 + 20;
inline constexpr uint8_t kL3Bytes = 20;
inline constexpr uint8_t kL3BytesIpv6 = 40;
inline constexpr uint8_t kL4Bytes = 20;

/// Payload of frame `id`, different for each id.
std::vector<uint8_t> pattern(uint32_t id, uint32_t bytes);

enum class Family : uint8_t { kIpv4, kIpv6 };
constexpr uint8_t l3_bytes_of(Family family) {
  return family == Family::kIpv4 ? kL3Bytes : kL3BytesIpv6;
}

/// Ethernet, IP and TCP headers of frame `id` for `payload_bytes` of payload. The TCP checksum
/// field holds the folded pseudo-header sum, the IPv4 field 0.
std::vector<uint8_t> headers(uint32_t id, uint32_t payload_bytes, Family family = Family::kIpv4);

/// Headers and payload, as one frame.
std::vector<uint8_t> frame(uint32_t id, uint32_t payload_bytes, Family family = Family::kIpv4);

/// True for a frame that this file made: a wire may carry other traffic.
bool is_ours(std::span<const uint8_t> frame);
uint32_t id_of(std::span<const uint8_t> frame);

/// Computed by plain 16-bit addition, independent of the code under test.
bool has_good_ip_checksum(std::span<const uint8_t> frame);
bool has_good_tcp_checksum(std::span<const uint8_t> frame);

}  // namespace lyre::io::contract
