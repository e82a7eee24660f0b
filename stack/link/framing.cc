#include "stack/link/framing.h"

#include "stack/base/check.h"

namespace lyre::link {

void push_ethernet(io::PacketBuf& packet, const FrameAddresses& addresses, uint16_t ether_type) {
  LYRE_CHECK(packet.headroom >= wire::kEthernetHeaderBytes);
  uint8_t* front = packet.push_front(wire::kEthernetHeaderBytes);
  const wire::EthernetHeader header{addresses.destination, addresses.source, ether_type};
  wire::write_ethernet(
      header, std::span<uint8_t, wire::kEthernetHeaderBytes>(front, wire::kEthernetHeaderBytes));
}

void write_arp_frame(io::PacketBuf& packet, const FrameAddresses& addresses,
                     const wire::ArpPacket& arp) {
  LYRE_CHECK(packet.headroom >= wire::kArpBytes);
  uint8_t* front = packet.push_front(wire::kArpBytes);
  wire::write_arp(arp, std::span<uint8_t, wire::kArpBytes>(front, wire::kArpBytes));
  push_ethernet(packet, addresses, wire::kEtherTypeArp);
}

}  // namespace lyre::link
