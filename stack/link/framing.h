#pragma once

#include <cstdint>
#include <cstring>

#include "stack/base/mac_address.h"
#include "stack/io/packet.h"
#include "stack/link/neighbour_out.h"
#include "stack/wire/arp.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv6.h"

namespace lyre::link {

/// Ethernet source and destination of a frame.
struct FrameAddresses {
  MacAddress source;
  MacAddress destination;
};

/// Removes a tag that only gives a priority from a received frame. False: it has none.
/// Every packet that is parsed passes here.
inline bool remove_priority_tag(io::PacketBuf& packet) {
  if (!wire::is_priority_tagged(packet.bytes())) return false;
  std::memmove(packet.data + wire::kVlanTagBytes, packet.data, 12);  // both addresses
  packet.pop_front(wire::kVlanTagBytes);
  return true;
}

/// Prepends an Ethernet header to `packet`.
/// REQUIRES: kEthernetHeaderBytes of headroom.
void push_ethernet(io::PacketBuf& packet, const FrameAddresses& addresses, uint16_t ether_type);

/// Prepends Ethernet and IPv6 headers to `packet`.
/// REQUIRES: headroom for both; header.payload_bytes includes the pieces of the packet.
void push_ipv6(io::PacketBuf& packet, const FrameAddresses& addresses,
               const wire::Ipv6Header& header);

/// Writes an ARP frame into the empty `packet`. REQUIRES: headroom for both headers.
void write_arp_frame(io::PacketBuf& packet, const FrameAddresses& addresses,
                     const wire::ArpPacket& arp);

/// Writes an NDP frame into the empty `packet`. REQUIRES: headroom for all headers.
void write_ndp_frame(io::PacketBuf& packet, const FrameAddresses& addresses, const NdpPacket& ndp);

/// Writes an MLD report into the empty `packet`. REQUIRES: headroom for all headers.
void write_mld_frame(io::PacketBuf& packet, const FrameAddresses& addresses, const MldPacket& mld);

/// Writes a frame of the kind that `out` holds, sent from a port whose MAC is `own_mac`.
void write_neighbour_frame(io::PacketBuf& packet, MacAddress own_mac, const NeighbourOut& out);

}  // namespace lyre::link
