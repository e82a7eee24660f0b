#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "stack/base/checksum.h"
#include "stack/base/ipv6_address.h"
#include "stack/ip/output.h"
#include "stack/wire/bytes.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icmp.h"
#include "stack/wire/icmpv6.h"
#include "stack/wire/ipv4.h"

namespace lyre::ip {

inline constexpr MacAddress kOwnMac{{2, 0, 0, 0, 0, 1}};
inline constexpr MacAddress kPeerMac{{2, 0, 0, 0, 0, 2}};
inline const IpAddress kOwnIp = IpAddress::v4(0x0a000001);
inline const IpAddress kPeerIp = IpAddress::v4(0x0a000002);
inline constexpr IpAddress kOwnIp6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
inline constexpr IpAddress kPeerIp6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

/// A transmit buffer over memory of its own.
struct TestPacket {
  std::vector<uint8_t> memory = std::vector<uint8_t>(128 + 2048);
  io::PacketBuf buf;
  TestPacket() {
    buf.data = memory.data() + 128;
    buf.headroom = 128;
    buf.tailroom = 2048;
  }
};

/// The frame bytes as a packet that a port without checksum offload received.
inline io::PacketBuf received(std::vector<uint8_t>& frame) {
  io::PacketBuf out;
  out.data = frame.data();
  out.length = static_cast<uint32_t>(frame.size());
  return out;
}

/// Completes checksums as a backend does, in a simple way.
inline void complete_checksums(io::PacketBuf& packet) {
  uint8_t* ip = packet.data + wire::kEthernetHeaderBytes;
  if (packet.l3_bytes < wire::kIpv6HeaderBytes) {
    ChecksumSum ip_sum;
    ip_sum.add({ip, packet.l3_bytes});
    wire::write_raw16(ip + 10, ip_sum.finish());
  }
  uint8_t* tcp = ip + packet.l3_bytes;
  ChecksumSum tcp_sum;
  tcp_sum.add({tcp, packet.data + packet.length});
  wire::write_raw16(tcp + 16, tcp_sum.finish());
}

/// The frame of a segment whose text counts up from 0, built by the code that sends our segments.
inline std::vector<uint8_t> tcp_frame(const TcpOutput& output) {
  TestPacket packet;
  for (uint32_t i = 0; i < output.payload_bytes; ++i) packet.buf.data[i] = uint8_t(i);
  packet.buf.length = output.payload_bytes;
  write_tcp_packet(packet.buf, output);
  complete_checksums(packet.buf);
  return {packet.buf.data, packet.buf.data + packet.buf.length};
}

/// An Ethernet frame that carries `payload` in an IPv4 packet from the peer to us.
inline std::vector<uint8_t> ip_frame(uint8_t protocol, std::span<const uint8_t> payload,
                                     const IpAddress& source = kPeerIp,
                                     const IpAddress& destination = kOwnIp) {
  constexpr size_t kFrontBytes = wire::kEthernetHeaderBytes + wire::kIpv4HeaderBytesMin;
  std::vector<uint8_t> out(kFrontBytes + payload.size());
  wire::write_ethernet({kOwnMac, kPeerMac, wire::kEtherTypeIpv4},
                       std::span(out).first<wire::kEthernetHeaderBytes>());
  wire::Ipv4Header header;
  header.source = source;
  header.destination = destination;
  header.protocol = protocol;
  header.total_bytes = static_cast<uint16_t>(wire::kIpv4HeaderBytesMin + payload.size());
  wire::write_ipv4(header, wire::ChecksumField::kComputed,
                   std::span(out).subspan<wire::kEthernetHeaderBytes, wire::kIpv4HeaderBytesMin>());
  std::copy(payload.begin(), payload.end(), out.begin() + kFrontBytes);
  return out;
}

/// An ICMP message with a correct checksum.
inline std::vector<uint8_t> icmp_message(uint8_t type, uint8_t code, uint32_t rest,
                                         std::span<const uint8_t> body) {
  std::vector<uint8_t> out(wire::kIcmpHeaderBytes + body.size());
  out[0] = type;
  out[1] = code;
  wire::write_be32(out.data() + 4, rest);
  std::copy(body.begin(), body.end(), out.begin() + wire::kIcmpHeaderBytes);
  ChecksumSum sum;
  sum.add(out);
  wire::write_raw16(out.data() + 2, sum.finish());
  return out;
}

/// The first 28 bytes of a TCP packet of 1500 bytes, as a router quotes them.
inline std::vector<uint8_t> quoted_segment(const FourTuple& tuple, SeqNum seq) {
  std::vector<uint8_t> out(28);
  wire::Ipv4Header header;
  header.source = tuple.local.address;
  header.destination = tuple.remote.address;
  header.protocol = wire::kIpProtocolTcp;
  header.total_bytes = 1500;
  wire::write_ipv4(header, wire::ChecksumField::kComputed,
                   std::span(out).first<wire::kIpv4HeaderBytesMin>());
  wire::write_be16(out.data() + 20, tuple.local.port);
  wire::write_be16(out.data() + 22, tuple.remote.port);
  wire::write_be32(out.data() + 24, seq.raw());
  return out;
}

/// Source, destination and hop limit of an IPv6 test packet.
struct Ipv6Route {
  IpAddress source = kPeerIp6;
  IpAddress destination = kOwnIp6;
  uint8_t hop_limit = 64;
};

/// An Ethernet frame that carries `payload` in an IPv6 packet from the peer.
inline std::vector<uint8_t> ipv6_frame(uint8_t next_header, std::span<const uint8_t> payload,
                                       const Ipv6Route& route = {}) {
  constexpr size_t kFrontBytes = wire::kEthernetHeaderBytes + wire::kIpv6HeaderBytes;
  std::vector<uint8_t> out(kFrontBytes + payload.size());
  const bool is_group = is_ipv6_multicast(route.destination);
  wire::write_ethernet(
      {is_group ? multicast_mac(route.destination) : kOwnMac, kPeerMac, wire::kEtherTypeIpv6},
      std::span(out).first<wire::kEthernetHeaderBytes>());
  wire::Ipv6Header header;
  header.source = route.source;
  header.destination = route.destination;
  header.payload_bytes = static_cast<uint16_t>(payload.size());
  header.next_header = next_header;
  header.marking.hop_limit = route.hop_limit;
  wire::write_ipv6(header,
                   std::span(out).subspan<wire::kEthernetHeaderBytes, wire::kIpv6HeaderBytes>());
  std::copy(payload.begin(), payload.end(), out.begin() + kFrontBytes);
  return out;
}

/// An ICMPv6 message with a correct checksum.
inline std::vector<uint8_t> icmpv6_message(uint8_t type, uint8_t code, uint32_t rest,
                                           std::span<const uint8_t> body,
                                           const Ipv6Route& route = {}) {
  std::vector<uint8_t> out(wire::kIcmpHeaderBytes + body.size());
  out[0] = type;
  out[1] = code;
  wire::write_be32(out.data() + 4, rest);
  std::copy(body.begin(), body.end(), out.begin() + wire::kIcmpHeaderBytes);
  wire::complete_icmpv6({route.source, route.destination}, out);
  return out;
}

/// The first 48 bytes of a TCP packet of 1500 bytes over IPv6, as a router quotes them.
inline std::vector<uint8_t> quoted_segment6(const FourTuple& tuple, SeqNum seq) {
  std::vector<uint8_t> out(48);
  wire::Ipv6Header header;
  header.source = tuple.local.address;
  header.destination = tuple.remote.address;
  header.payload_bytes = 1460;
  header.next_header = wire::kIpProtocolTcp;
  wire::write_ipv6(header, std::span(out).first<wire::kIpv6HeaderBytes>());
  wire::write_be16(out.data() + 40, tuple.local.port);
  wire::write_be16(out.data() + 42, tuple.remote.port);
  wire::write_be32(out.data() + 44, seq.raw());
  return out;
}

}  // namespace lyre::ip
