#pragma once

#include <span>

#include "stack/ip/input.h"
#include "stack/wire/icmpv6.h"

/// Parts of classify() that both families use.
namespace lyre::ip {

/// The payload of an Ethernet frame.
struct FrameInput {
  const io::PacketBuf& packet;
  std::span<const uint8_t> bytes;
  MacAddress sender_mac;
  bool is_to_group = false;  ///< the frame went to a multicast MAC
  Origin origin = Origin::kWire;
};

InputKind drop_for(Drop reason, Classified& out);

/// Whether a super-packet is as long as its IP header says: it has no padding. `bytes`: its IP
/// packet, as far as it lies in the first slot.
inline bool fills_super_packet(const io::PacketBuf& packet, std::span<const uint8_t> bytes,
                               size_t ip_bytes) {
  return ip_bytes == bytes.size() + packet.rest_bytes;
}

/// `segment` is the packet's whole payload and nothing else; of a super-packet, what lies in the
/// first slot.
InputKind classify_tcp(const io::PacketBuf& packet, const wire::AddressPair& addresses,
                       wire::Ecn ecn, std::span<const uint8_t> segment, Classified& out);

InputKind classify_ipv6(const FrameInput& input, const RouteTable& routes, Classified& out);

}  // namespace lyre::ip
