#include "stack/ip/output.h"

#include <cstring>

#include "stack/base/check.h"
#include "stack/wire/bytes.h"

namespace lyre::ip {

namespace {

void push_ipv4(io::PacketBuf& packet, const TcpOutput& output, uint32_t tcp_bytes) {
  wire::Ipv4Header ip;
  ip.source = output.tuple.local.address;
  ip.destination = output.tuple.remote.address;
  ip.total_bytes = static_cast<uint16_t>(tcp_bytes + wire::kIpv4HeaderBytesMin);
  ip.id = output.ip_id;
  ip.protocol = wire::kIpProtocolTcp;
  ip.marking = output.marking;
  ip.ecn = output.ecn;
  uint8_t* front = packet.push_front(wire::kIpv4HeaderBytesMin);
  wire::write_ipv4(ip, wire::ChecksumField::kZero,
                   std::span<uint8_t, wire::kIpv4HeaderBytesMin>(front, wire::kIpv4HeaderBytesMin));
  link::push_ethernet(packet, output.frame, wire::kEtherTypeIpv4);
  packet.l3_bytes = wire::kIpv4HeaderBytesMin;
}

void push_ipv6(io::PacketBuf& packet, const TcpOutput& output, uint32_t tcp_bytes) {
  link::push_ipv6(packet, output.frame,
                  {.source = output.tuple.local.address,
                   .destination = output.tuple.remote.address,
                   .flow_label = output.flow_label,
                   .payload_bytes = static_cast<uint16_t>(tcp_bytes),
                   .next_header = wire::kIpProtocolTcp,
                   .marking = output.marking,
                   .ecn = output.ecn});
  packet.l3_bytes = wire::kIpv6HeaderBytes;
}

}  // namespace

void write_tcp_packet(io::PacketBuf& packet, const TcpOutput& output) {
  wire::TcpHeader header = output.header;
  header.source_port = output.tuple.local.port;
  header.destination_port = output.tuple.remote.port;
  const uint32_t header_bytes = wire::tcp_header_bytes(header);
  const uint32_t tcp_bytes = header_bytes + output.payload_bytes;
  // `packet` was newly allocated with the headroom that io/ guarantees. Its payload is at most one
  // MSS, or the port's tso_bytes_max, which leaves room for headers.
  LYRE_CHECK(packet.headroom >= kTcpFrontBytesMax);
  LYRE_CHECK(tcp_bytes + wire::kIpv6HeaderBytes <= UINT16_MAX);

  const IpAddress& source = output.tuple.local.address;
  const IpAddress& destination = output.tuple.remote.address;
  uint8_t* front = packet.push_front(static_cast<uint16_t>(header_bytes));
  wire::write_tcp(header, wire::tcp_pseudo_sum(source, destination, tcp_bytes),
                  {front, header_bytes});
  if (source.is_v4()) {
    push_ipv4(packet, output, tcp_bytes);
  } else {
    push_ipv6(packet, output, tcp_bytes);
  }
  packet.wants_checksums = true;
  packet.l4_bytes = static_cast<uint8_t>(header_bytes);
}

void repeat_tcp_packet(io::PacketBuf& packet, const io::PacketBuf& model, SeqNum seq,
                       uint16_t ip_id) {
  constexpr uint32_t kIpv4IdAt = 4;
  constexpr uint32_t kTcpSeqAt = 4;
  constexpr uint32_t kTcpFlagsAt = 13;
  const uint32_t front_bytes = wire::kEthernetHeaderBytes + model.l3_bytes + model.l4_bytes;
  LYRE_CHECK(front_bytes <= packet.headroom);  // model's headers were written the same way
  uint8_t* ip = packet.push_front(static_cast<uint16_t>(front_bytes)) + wire::kEthernetHeaderBytes;
  std::memcpy(packet.data, model.data, front_bytes);
  // These fields do not change the pseudo-header's sum; the port completes the rest of the
  // checksum.
  if (ip[0] >> 4 == 4) wire::write_be16(ip + kIpv4IdAt, ip_id);
  wire::write_be32(ip + model.l3_bytes + kTcpSeqAt, seq.raw());
  ip[model.l3_bytes + kTcpFlagsAt] &= static_cast<uint8_t>(~wire::TcpFlags::kCwr);
  packet.wants_checksums = model.wants_checksums;
  packet.l3_bytes = model.l3_bytes;
  packet.l4_bytes = model.l4_bytes;
}

}  // namespace lyre::ip
