#pragma once

#include <rte_mbuf.h>

#include <cstddef>
#include <cstdint>

#include "stack/io/packet.h"
#include "stack/io/packet_io.h"

namespace lyre::io::dpdk {

/// A PacketBuf is stored in the private area of its mbuf, directly after the header, so each is
/// found from the other by a constant offset. Rounded up so that buffers start on a cache line.
inline constexpr uint16_t kPrivateBytes = (sizeof(PacketBuf) + 63) / 64 * 64;
static_assert(kPrivateBytes % RTE_MBUF_PRIV_ALIGN == 0);
static_assert(alignof(PacketBuf) <= alignof(rte_mbuf));
static_assert(RTE_PKTMBUF_HEADROOM >= kTxHeadroomBytes);

inline PacketBuf* packet_of(rte_mbuf* mbuf) { return reinterpret_cast<PacketBuf*>(mbuf + 1); }
inline rte_mbuf* mbuf_of(PacketBuf* packet) { return reinterpret_cast<rte_mbuf*>(packet) - 1; }

/// Makes `packet` describe the first segment of its mbuf, with no offload requested.
inline void describe(PacketBuf& packet, const rte_mbuf& mbuf) {
  packet.data = static_cast<uint8_t*>(mbuf.buf_addr) + mbuf.data_off;
  packet.length = mbuf.data_len;
  packet.headroom = mbuf.data_off;
  packet.tailroom = static_cast<uint16_t>(mbuf.buf_len - mbuf.data_off - mbuf.data_len);
  packet.ip_checksum = ChecksumVerdict::kUnknown;
  packet.l4_checksum = ChecksumVerdict::kUnknown;
  packet.piece_count = 0;
  packet.next_slot = PacketBuf::kNoSlot;
  packet.rest_bytes = 0;
  packet.rest_slots = 0;
  packet.flow_hash = 0;
  packet.wants_checksums = false;
  packet.tso_bytes = 0;
}

}  // namespace lyre::io::dpdk
