#pragma once

#include <cstdint>
#include <span>

namespace lyre::io::sim {

/// How a TSO packet is laid out.
struct TsoShape {
  uint32_t l3_bytes = 0;
  uint32_t l4_bytes = 0;
  uint32_t payload_bytes_max = 0;  ///< of each cut
};

/// Headers of cut `index` of `count`, written over a copy of the packet's headers, as a NIC does
/// it: IPv4 length and identification, sequence number; FIN and PSH stay with the last cut, CWR
/// with the first; the TCP field keeps a pseudo-header sum, now of the cut's length.
void make_cut_header(std::span<uint8_t> header, const TsoShape& shape, uint32_t index,
                     uint32_t count, uint32_t cut_payload_bytes, uint32_t total_payload_bytes);

}  // namespace lyre::io::sim
