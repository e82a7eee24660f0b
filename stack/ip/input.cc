#include "stack/ip/input.h"

#include <algorithm>

#include "stack/ip/input_parts.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"

namespace lyre::ip {
namespace {

/// The port's checksum verdict; where it has none, the result of `verify`.
template <typename Verify>
bool is_good(io::ChecksumVerdict verdict, Verify verify) {
  if (verdict == io::ChecksumVerdict::kUnknown) return verify();
  return verdict == io::ChecksumVerdict::kGood;
}

InputKind classify_icmp(const wire::ParsedIpv4& ip, std::span<const uint8_t> message,
                        MacAddress sender_mac, const RouteTable& routes, Classified& out) {
  const std::optional<wire::ParsedIcmp> icmp = wire::parse_icmp(message, out.drop);
  if (!icmp) return InputKind::kDrop;
  if (icmp->type == wire::kIcmpEchoRequest) {
    out.echo = {sender_mac, ip.source, ip.destination, *icmp};
    return InputKind::kEchoRequest;
  }
  const std::optional<IcmpError> error = parse_icmp_error(*icmp, out.drop);
  if (!error) return InputKind::kDrop;
  if (!routes.is_own(error->tuple.local.address)) return drop_for(Drop::kIcmpBadQuote, out);
  out.icmp_error = *error;
  return InputKind::kIcmpError;
}

/// RFC 1122 3.2.1: a packet whose destination is not one of our unicast addresses, or whose source
/// is impossible, is silently discarded. So this stack never answers a broadcast or multicast over
/// IPv4.
std::optional<Drop> check_ip(const io::PacketBuf& packet, const wire::ParsedIpv4& ip,
                             std::span<const uint8_t> bytes, const RouteTable& routes,
                             Origin origin) {
  const bool is_intact = is_good(
      packet.ip_checksum, [&] { return wire::ipv4_checksum_ok(bytes.first(ip.header_bytes)); });
  if (!is_intact) return Drop::kIpBadChecksum;
  if (!routes.is_own(ip.destination)) return Drop::kIpNotForUs;
  const bool is_from_us = origin == Origin::kLocal && routes.is_own(ip.source);
  if (!is_from_us && routes.is_martian_source(ip.source)) return Drop::kIpBadSource;
  if (ip.is_fragment()) return Drop::kIpFragment;
  return std::nullopt;
}

/// RFC 2464 7: the Ethernet prefix of IPv6 multicast.
bool is_ipv6_group(MacAddress mac) { return mac.bytes[0] == 0x33 && mac.bytes[1] == 0x33; }

InputKind classify_ipv4(const io::PacketBuf& packet, std::span<const uint8_t> bytes,
                        MacAddress sender_mac, const RouteTable& routes, Origin origin,
                        Classified& out) {
  const bool is_super = packet.is_super_packet();
  const std::optional<wire::ParsedIpv4> ip =
      is_super ? wire::parse_ipv4_quoted(bytes, out.drop) : wire::parse_ipv4(bytes, out.drop);
  if (!ip) return InputKind::kDrop;
  if (is_super && !fills_super_packet(packet, bytes, ip->total_bytes)) {
    return drop_for(Drop::kIpTooShort, out);
  }
  if (const std::optional<Drop> reason = check_ip(packet, *ip, bytes, routes, origin)) {
    return drop_for(*reason, out);
  }
  const std::span<const uint8_t> payload =
      bytes.first(std::min<size_t>(ip->total_bytes, bytes.size())).subspan(ip->header_bytes);
  if (ip->protocol == wire::kIpProtocolTcp) {
    return classify_tcp(packet, {ip->source, ip->destination}, ip->ecn, payload, out);
  }
  if (ip->protocol == wire::kIpProtocolIcmp && !is_super) {
    return classify_icmp(*ip, payload, sender_mac, routes, out);
  }
  return drop_for(Drop::kIpUnknownProtocol, out);
}

}  // namespace

InputKind drop_for(Drop reason, Classified& out) {
  out.drop = reason;
  return InputKind::kDrop;
}

InputKind classify_tcp(const io::PacketBuf& packet, const wire::AddressPair& addresses,
                       wire::Ecn ecn, std::span<const uint8_t> segment, Classified& out) {
  if (segment.size() < wire::kTcpHeaderBytesMin) return drop_for(Drop::kTcpTooShort, out);
  const bool is_intact = is_good(packet.l4_checksum, [&] {
    // The rest of a super-packet is not at hand: only the port can verify it.
    return !packet.is_super_packet() &&
           wire::tcp_checksum_ok(addresses.source, addresses.destination, segment);
  });
  if (!is_intact) return drop_for(Drop::kTcpBadChecksum, out);
  const std::optional<wire::ParsedTcp> parsed = wire::parse_tcp(segment, out.drop);
  if (!parsed) return InputKind::kDrop;
  out.tcp.parsed = *parsed;
  out.tcp.tuple.local = {addresses.destination, parsed->header.destination_port};
  out.tcp.tuple.remote = {addresses.source, parsed->header.source_port};
  out.tcp.payload = segment.subspan(parsed->header_bytes);
  out.tcp.ecn = ecn;
  return InputKind::kTcp;
}

InputKind classify(const io::PacketBuf& packet, MacAddress own_mac, const RouteTable& routes,
                   Origin origin, Classified& out) {
  const std::span<const uint8_t> frame = packet.bytes();
  const std::optional<wire::EthernetHeader> ethernet = wire::parse_ethernet(frame, out.drop);
  if (!ethernet) return InputKind::kDrop;
  const bool is_to_us = ethernet->destination == own_mac || origin == Origin::kLocal;
  const std::span<const uint8_t> rest = frame.subspan(wire::kEthernetHeaderBytes);
  if (ethernet->type == wire::kEtherTypeArp) {
    if (!is_to_us && ethernet->destination != kMacBroadcast) {
      return drop_for(Drop::kEthNotForUs, out);
    }
    const std::optional<wire::ArpPacket> arp = wire::parse_arp(rest, out.drop);
    if (!arp) return InputKind::kDrop;
    out.arp = *arp;
    return InputKind::kArp;
  }
  if (ethernet->type == wire::kEtherTypeIpv6) {
    if (!is_to_us && !is_ipv6_group(ethernet->destination)) {
      return drop_for(Drop::kEthNotForUs, out);
    }
    const FrameInput input{packet, rest, ethernet->source, !is_to_us, origin};
    return classify_ipv6(input, routes, out);
  }
  // RFC 1122 3.3.6: a unicast IP packet in a broadcast frame is discarded.
  if (!is_to_us) return drop_for(Drop::kEthNotForUs, out);
  if (ethernet->type != wire::kEtherTypeIpv4) return drop_for(Drop::kEthUnknownType, out);
  return classify_ipv4(packet, rest, ethernet->source, routes, origin, out);
}

}  // namespace lyre::ip
