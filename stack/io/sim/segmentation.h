#pragma once

#include <cstdint>
#include <span>

namespace lyre::io::sim {

/// The layout of a TSO packet.
struct TsoShape {
  uint32_t l3_bytes = 0;
  uint32_t l4_bytes = 0;
  uint32_t payload_bytes_max = 0;  ///< of each segment
};

/// Writes the headers of segment `index` of `count` over a copy of the packet's headers, as a NIC
/// does: IPv4 length and identification, and the sequence number. Only the last segment keeps FIN
/// and PSH, only the first CWR. The TCP checksum field gets the pseudo-header sum with the
/// segment's length.
void make_cut_header(std::span<uint8_t> header, const TsoShape& shape, uint32_t index,
                     uint32_t count, uint32_t cut_payload_bytes, uint32_t total_payload_bytes);

}  // namespace lyre::io::sim
