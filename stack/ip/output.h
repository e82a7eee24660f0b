#pragma once

#include <cstdint>

#include "stack/base/ip_address.h"
#include "stack/base/ip_marking.h"
#include "stack/io/packet.h"
#include "stack/link/framing.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/tcp_segment.h"

namespace lyre::ip {

/// All values in the headers of one TCP packet.
struct TcpOutput {
  link::FrameAddresses frame;
  FourTuple tuple;             ///< local is the sender; its ports go into the TCP header
  wire::TcpHeader header;      ///< ports are ignored
  uint32_t payload_bytes = 0;  ///< after the headers: in the packet already, or in its pieces
  uint16_t ip_id = 0;          ///< of IPv4
  uint32_t flow_label = 0;     ///< of IPv6: 20 bits that stay the same for a connection (RFC 6437)
  IpMarking marking;
  wire::Ecn ecn = wire::Ecn::kNotEct;
};

/// Length of the longest Ethernet, IP and TCP headers together.
inline constexpr uint16_t kTcpFrontBytesMax =
    wire::kEthernetHeaderBytes + wire::kIpv6HeaderBytes + wire::kTcpHeaderBytesMax;

/// Prepends Ethernet, IP and TCP headers to `packet`, and requests checksum offload:
/// `wants_checksums`, `l3_bytes`, `l4_bytes` are set, the IPv4 checksum field is 0, the TCP
/// checksum field is the folded sum of the pseudo-header with the length of the whole packet (also
/// when tso_bytes > 0). The caller sets `tso_bytes` and `pieces`.
/// REQUIRES: kTcpFrontBytesMax of headroom, addresses of one family, at most 65535 bytes of IP
/// packet.
void write_tcp_packet(io::PacketBuf& packet, const TcpOutput& output);

/// Prepends the headers of `model` to `packet`, a later segment of one large send with the same
/// payload length and the sequence number `seq`. CWR is set only on the first segment (RFC 3168
/// 6.1.2).
/// REQUIRES: write_tcp_packet() wrote `model`.
void repeat_tcp_packet(io::PacketBuf& packet, const io::PacketBuf& model, SeqNum seq,
                       uint16_t ip_id);

}  // namespace lyre::ip
