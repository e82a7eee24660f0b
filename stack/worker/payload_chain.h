#pragma once

#include <cstdint>
#include <span>

#include "stack/io/packet.h"

/// Received packets as the engine and the sessions know them: reduced to their payload, and chained
/// by slot where the segments were merged.
namespace lyre::worker {

/// The packet becomes its payload, followed by the rest of a super-packet. REQUIRES: `payload` lies
/// in packet.bytes().
inline void reduce_to_payload(io::PacketBuf& packet, std::span<const uint8_t> payload) {
  packet.data = const_cast<uint8_t*>(payload.data());
  packet.length = static_cast<uint32_t>(payload.size());
}

/// Receive slots that a received packet fills.
inline uint32_t slots_of(const io::PacketBuf& packet) { return 1u + packet.rest_slots; }

}  // namespace lyre::worker
