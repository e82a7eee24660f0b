#pragma once

#include <cstdint>

#include "stack/base/ip_address.h"
#include "stack/io/packet.h"
#include "stack/link/framing.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/tcp_segment.h"

namespace lyre::ip {

/// All that the headers of one TCP packet say.
struct TcpOutput {
  link::FrameAddresses frame;
  FourTuple tuple;             ///< local is the sender; its ports go into the TCP header
  wire::TcpHeader header;      ///< ports are ignored
  uint32_t payload_bytes = 0;  ///< behind the headers: in the packet already, or in its pieces
  uint16_t ip_id = 0;          ///< of IPv4
  uint32_t flow_label = 0;     ///< of IPv6: 20 bits that stay the same for a connection (RFC 6437)
  wire::Ecn ecn = wire::Ecn::kNotEct;
};

/// Bytes of the longest Ethernet, IP and TCP headers together.
inline constexpr uint16_t kTcpFrontBytesMax =
    wire::kEthernetHeaderBytes + wire::kIpv6HeaderBytes + wire::kTcpHeaderBytesMax;

/// Puts Ethernet, IP and TCP headers in front of what `packet` holds, and asks the port to
/// complete the checksums: `wants_checksums`, `l3_bytes`, `l4_bytes` are set, the IPv4 field is 0,
/// the TCP field the folded sum of the pseudo-header with the length of the whole packet (also when
/// tso_bytes > 0). `tso_bytes` and `pieces` are the caller's.
/// REQUIRES: kTcpFrontBytesMax of headroom, addresses of one family, at most 65535 bytes of IP
/// packet.
void write_tcp_packet(io::PacketBuf& packet, const TcpOutput& output);

/// Puts the headers of `model` in front of `packet`, which carries as much payload, `seq` on: a
/// later cut of one large send. CWR stays with the first (RFC 3168 6.1.2).
/// REQUIRES: write_tcp_packet() made `model`.
void repeat_tcp_packet(io::PacketBuf& packet, const io::PacketBuf& model, SeqNum seq,
                       uint16_t ip_id);

}  // namespace lyre::ip
