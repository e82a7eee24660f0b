#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "stack/base/checksum.h"
#include "stack/io/packet.h"

namespace lyre::io {

inline constexpr size_t kTcpChecksumAt = 16;
inline constexpr size_t kIpv4ChecksumAt = 10;

inline bool is_ipv4(const PacketBuf& packet) {
  return (packet.data[kEthernetHeaderBytes] >> 4) == 4;
}

/// Completes the IPv4 header checksum, whose field holds 0. IPv6 has none.
/// REQUIRES: the packet's own bytes contain the Ethernet and IP headers.
inline void complete_ip_checksum(PacketBuf& packet) {
  if (!is_ipv4(packet)) return;
  uint8_t* ip = packet.data + kEthernetHeaderBytes;
  ChecksumSum header;
  header.add({ip, packet.l3_bytes});
  const uint16_t sum = header.finish();
  std::memcpy(ip + kIpv4ChecksumAt, &sum, sizeof(sum));
}

/// Undoes it, for a packet that is to be sent later.
inline void clear_ip_checksum(PacketBuf& packet) {
  if (!packet.wants_checksums || !is_ipv4(packet)) return;
  std::memset(packet.data + kEthernetHeaderBytes + kIpv4ChecksumAt, 0, sizeof(uint16_t));
}

/// Completes the TCP checksum, whose field holds the pseudo-header's sum. `resolve(BufRef)` returns
/// the bytes of a piece.
/// REQUIRES: the packet's own bytes contain the Ethernet, IP and TCP headers.
template <typename Resolve>
void complete_tcp_checksum(PacketBuf& packet, const Resolve& resolve) {
  uint8_t* tcp = packet.data + kEthernetHeaderBytes + packet.l3_bytes;
  ChecksumSum segment;  // the sum in the field is included
  segment.add({tcp, static_cast<size_t>(packet.data + packet.length - tcp)});
  for (uint32_t i = 0; i < packet.piece_count; ++i) {
    segment.add(resolve(packet.pieces[i]));
  }
  const uint16_t sum = segment.finish();
  std::memcpy(tcp + kTcpChecksumAt, &sum, sizeof(sum));
}

}  // namespace lyre::io
