#pragma once

#include <cstdint>

#include "stack/base/mac_address.h"
#include "stack/io/packet.h"
#include "stack/link/neighbour_out.h"
#include "stack/wire/arp.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv6.h"

namespace lyre::link {

/// Where a frame comes from and goes to.
struct FrameAddresses {
  MacAddress source;
  MacAddress destination;
};

/// Puts an Ethernet header in front of what `packet` holds.
/// REQUIRES: kEthernetHeaderBytes of headroom.
void push_ethernet(io::PacketBuf& packet, const FrameAddresses& addresses, uint16_t ether_type);

/// Puts Ethernet and IPv6 headers in front of what `packet` holds.
/// REQUIRES: headroom for both; header.payload_bytes counts pieces too.
void push_ipv6(io::PacketBuf& packet, const FrameAddresses& addresses,
               const wire::Ipv6Header& header);

/// Makes an empty `packet` an ARP frame. REQUIRES: headroom for both headers.
void write_arp_frame(io::PacketBuf& packet, const FrameAddresses& addresses,
                     const wire::ArpPacket& arp);

/// Makes an empty `packet` one of neighbour discovery. REQUIRES: headroom for all headers.
void write_ndp_frame(io::PacketBuf& packet, const FrameAddresses& addresses, const NdpPacket& ndp);

/// The same for a report of multicast listener discovery.
void write_mld_frame(io::PacketBuf& packet, const FrameAddresses& addresses, const MldPacket& mld);

/// Whichever it is, from a port whose MAC is `own_mac`.
void write_neighbour_frame(io::PacketBuf& packet, MacAddress own_mac, const NeighbourOut& out);

}  // namespace lyre::link
