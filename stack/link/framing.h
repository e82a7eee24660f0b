#pragma once

#include <cstdint>

#include "stack/base/mac_address.h"
#include "stack/io/packet.h"
#include "stack/wire/arp.h"
#include "stack/wire/ethernet.h"

namespace lyre::link {

/// Where a frame comes from and goes to.
struct FrameAddresses {
  MacAddress source;
  MacAddress destination;
};

/// Puts an Ethernet header in front of what `packet` holds.
/// REQUIRES: kEthernetHeaderBytes of headroom.
void push_ethernet(io::PacketBuf& packet, const FrameAddresses& addresses, uint16_t ether_type);

/// Makes an empty `packet` an ARP frame. REQUIRES: headroom for both headers.
void write_arp_frame(io::PacketBuf& packet, const FrameAddresses& addresses,
                     const wire::ArpPacket& arp);

}  // namespace lyre::link
