#include "stack/link/framing.h"

#include <algorithm>

#include "stack/base/check.h"

/// Packets are newly allocated: their headroom (io::kTxHeadroomBytes) covers every frame that is
/// written here. No length depends on what a peer sends.
namespace lyre::link {

void push_ethernet(io::PacketBuf& packet, const FrameAddresses& addresses, uint16_t ether_type) {
  LYRE_CHECK(packet.headroom >= wire::kEthernetHeaderBytes);
  uint8_t* front = packet.push_front(wire::kEthernetHeaderBytes);
  const wire::EthernetHeader header{addresses.destination, addresses.source, ether_type};
  wire::write_ethernet(
      header, std::span<uint8_t, wire::kEthernetHeaderBytes>(front, wire::kEthernetHeaderBytes));
}

void push_ipv6(io::PacketBuf& packet, const FrameAddresses& addresses,
               const wire::Ipv6Header& header) {
  uint8_t* front = packet.push_front(wire::kIpv6HeaderBytes);
  wire::write_ipv6(header,
                   std::span<uint8_t, wire::kIpv6HeaderBytes>(front, wire::kIpv6HeaderBytes));
  push_ethernet(packet, addresses, wire::kEtherTypeIpv6);
}

void write_arp_frame(io::PacketBuf& packet, const FrameAddresses& addresses,
                     const wire::ArpPacket& arp) {
  // Packets to send come from a pool whose headroom is a constant.
  LYRE_CHECK(packet.headroom >= wire::kArpBytes);
  uint8_t* front = packet.push_front(wire::kArpBytes);
  wire::write_arp(arp, std::span<uint8_t, wire::kArpBytes>(front, wire::kArpBytes));
  push_ethernet(packet, addresses, wire::kEtherTypeArp);
}

void write_ndp_frame(io::PacketBuf& packet, const FrameAddresses& addresses, const NdpPacket& ndp) {
  uint8_t message[wire::kNdpBytesMax];
  const uint16_t bytes = wire::write_ndp(ndp.message, ndp.addresses, message);
  // As above: the message is this host's own, and no longer than its buffer.
  LYRE_CHECK(packet.headroom >= bytes + wire::kIpv6HeaderBytes);
  std::copy_n(message, bytes, packet.push_front(bytes));
  push_ipv6(packet, addresses,
            {.source = ndp.addresses.source,
             .destination = ndp.addresses.destination,
             .payload_bytes = bytes,
             .next_header = wire::kIpProtocolIcmpv6,
             .marking = {.hop_limit = wire::kNdpHopLimit}});
}

void write_mld_frame(io::PacketBuf& packet, const FrameAddresses& addresses, const MldPacket& mld) {
  uint8_t message[wire::kMldBytesMax];
  const uint16_t bytes = wire::write_mld_report(mld.report, mld.addresses, message);
  // As above: the message is this host's own, and no longer than its buffer.
  LYRE_CHECK(packet.headroom >= bytes + wire::kIpv6HeaderBytes);
  std::copy_n(message, bytes, packet.push_front(bytes));
  push_ipv6(packet, addresses,
            {.source = mld.addresses.source,
             .destination = mld.addresses.destination,
             .payload_bytes = bytes,
             .next_header = 0,  // hop-by-hop options, with which the message begins
             .marking = {.hop_limit = wire::kMldHopLimit}});
}

void write_neighbour_frame(io::PacketBuf& packet, MacAddress own_mac, const NeighbourOut& out) {
  const FrameAddresses addresses{.source = own_mac, .destination = out.destination};
  switch (out.kind) {
    case NeighbourOut::Kind::kArp:
      return write_arp_frame(packet, addresses, out.arp);
    case NeighbourOut::Kind::kNdp:
      return write_ndp_frame(packet, addresses, out.ndp);
    case NeighbourOut::Kind::kMld:
      return write_mld_frame(packet, addresses, out.mld);
  }
}

}  // namespace lyre::link
