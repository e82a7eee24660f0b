#include <algorithm>

#include "stack/base/ipv6_address.h"
#include "stack/ip/input_parts.h"
#include "stack/wire/ndp.h"

namespace lyre::ip {
namespace {

/// One IPv6 packet while it is classified.
struct Packet {
  const FrameInput& input;
  const RouteTable& routes;
  wire::ParsedIpv6 ip;
  std::span<const uint8_t> bytes;  ///< header and payload, padding cut off

  wire::AddressPair addresses() const { return {ip.source, ip.destination}; }
};

/// As for IPv4 (RFC 1122 3.2.1): a packet is dropped that is not for this host or whose source is
/// impossible. A v4-mapped address would be confused with an IPv4 address, so no packet may carry
/// one.
std::optional<Drop> check_addresses(const Packet& packet) {
  const wire::ParsedIpv6& ip = packet.ip;
  if (is_ipv6_multicast(ip.destination)) {
    if (!packet.routes.is_joined(ip.destination)) return Drop::kIpNotForUs;
  } else {
    if (packet.input.is_to_group) return Drop::kEthNotForUs;
    const bool is_ours = packet.input.origin == Origin::kLocal
                             ? packet.routes.is_own(ip.destination)
                             : packet.routes.accepts(ip.destination);
    if (ip.destination.is_v4() || !is_ours) return Drop::kIpNotForUs;
  }
  if (ip.source.is_v4()) return Drop::kIpBadSource;
  // RFC 4862 5.4.2: a host that probes for an address sends from the unspecified address.
  if (ip.source.is_unspecified() && ip.next_header == wire::kIpProtocolIcmpv6) return std::nullopt;
  const bool is_from_us = packet.routes.is_own(ip.source);
  // Another host uses an address of ours: neighbour discovery must see the packet to detect the
  // conflict.
  if (is_from_us && ip.next_header == wire::kIpProtocolIcmpv6) return std::nullopt;
  if (is_from_us && packet.input.origin == Origin::kLocal) return std::nullopt;
  if (packet.routes.is_martian_source(ip.source)) return Drop::kIpBadSource;
  return std::nullopt;
}

InputKind classify_ndp(const Packet& packet, const wire::UpperLayer& upper,
                       std::span<const uint8_t> message, Classified& out) {
  // RFC 6980 5: fragments hide NDP messages from filters in the network.
  if (upper.had_fragment_header) return drop_for(Drop::kNdpMalformed, out);
  const auto parsed = wire::parse_ndp(packet.addresses(), packet.ip.hop_limit, message, out.drop);
  if (!parsed) return InputKind::kDrop;
  out.ndp = {packet.input.sender_mac, {packet.addresses(), *parsed}};
  return InputKind::kNdp;
}

InputKind classify_icmpv6(const Packet& packet, const wire::UpperLayer& upper,
                          std::span<const uint8_t> message, Classified& out) {
  const std::optional<wire::ParsedIcmp> icmp =
      wire::parse_icmpv6(packet.addresses(), message, out.drop);
  if (!icmp) return InputKind::kDrop;
  if (wire::is_ndp_type(icmp->type)) return classify_ndp(packet, upper, message, out);
  const bool is_from_us =
      packet.input.origin == Origin::kWire && packet.routes.is_own(packet.ip.source);
  if (packet.ip.source.is_unspecified() || is_from_us) return drop_for(Drop::kIpBadSource, out);
  if (icmp->type == wire::kMldQuery) {
    const auto query =
        wire::parse_mld_query(packet.addresses(), packet.ip.hop_limit, message, out.drop);
    if (!query) return InputKind::kDrop;
    out.mld_query = *query;
    return InputKind::kMldQuery;
  }
  if (icmp->type == wire::kIcmpv6EchoRequest) {
    // RFC 4443 4.2 allows a host to answer a multicast echo request. This stack never does.
    if (is_ipv6_multicast(packet.ip.destination)) return drop_for(Drop::kIcmpIgnored, out);
    out.echo = {packet.input.sender_mac, packet.ip.source, packet.ip.destination, *icmp};
    return InputKind::kEchoRequest;
  }
  const std::optional<IcmpError> error = parse_icmpv6_error(*icmp, out.drop);
  if (!error) return InputKind::kDrop;
  if (!packet.routes.is_own(error->tuple.local.address)) return drop_for(Drop::kIcmpBadQuote, out);
  out.icmp_error = *error;
  return InputKind::kIcmpError;
}

/// RFC 4443 2.4 (e): no error is sent about an error, about a multicast packet (but for the cases
/// that say so), or to the unspecified address.
InputKind refuse(const Packet& packet, const wire::ParameterProblem& problem, Drop reason,
                 Classified& out) {
  out.drop = reason;
  const wire::ParsedIpv6& ip = packet.ip;
  const bool was_multicast = is_ipv6_multicast(ip.destination) || packet.input.is_to_group;
  if (was_multicast && !problem.is_for_multicast_too) return InputKind::kDrop;
  if (ip.source.is_unspecified() || packet.routes.is_own(ip.source)) return InputKind::kDrop;
  const IpAddress from = was_multicast ? IpAddress{} : ip.destination;
  out.refused = {packet.input.sender_mac, ip.source, from, packet.bytes, problem};
  return InputKind::kRefused;
}

}  // namespace

InputKind classify_ipv6(const FrameInput& input, const RouteTable& routes, Classified& out) {
  const bool is_super = input.packet.is_super_packet();
  const std::optional<wire::ParsedIpv6> ip = is_super
                                                 ? wire::parse_ipv6_quoted(input.bytes, out.drop)
                                                 : wire::parse_ipv6(input.bytes, out.drop);
  if (!ip) return InputKind::kDrop;
  const size_t ip_bytes = size_t{wire::kIpv6HeaderBytes} + ip->payload_bytes;
  if (is_super && !fills_super_packet(input.packet, input.bytes, ip_bytes)) {
    return drop_for(Drop::kIpTooShort, out);
  }
  const Packet packet{input, routes, *ip,
                      input.bytes.first(std::min(ip_bytes, input.bytes.size()))};
  if (const std::optional<Drop> reason = check_addresses(packet)) return drop_for(*reason, out);
  std::optional<wire::ParameterProblem> problem;
  const auto upper = wire::skip_extensions(packet.bytes, out.drop, problem);
  if (!upper) return problem ? refuse(packet, *problem, out.drop, out) : InputKind::kDrop;
  const std::span<const uint8_t> payload = packet.bytes.subspan(upper->offset_bytes);
  if (is_super && upper->protocol != wire::kIpProtocolTcp) {
    return drop_for(Drop::kIpUnknownProtocol, out);
  }
  if (upper->protocol == wire::kIpProtocolIcmpv6) {
    return classify_icmpv6(packet, *upper, payload, out);
  }
  if (upper->protocol != wire::kIpProtocolTcp) {
    constexpr uint8_t kNoNextHeader = 59;
    if (upper->protocol == kNoNextHeader) return drop_for(Drop::kIpUnknownProtocol, out);
    // RFC 8200 4: the pointer is the offset of the unknown next header value.
    return refuse(packet, {wire::kProblemNextHeader, false, upper->protocol_at},
                  Drop::kIpUnknownProtocol, out);
  }
  if (is_ipv6_multicast(ip->destination)) return drop_for(Drop::kIpNotForUs, out);
  return classify_tcp(input.packet, packet.addresses(), ip->ecn, payload, out);
}

}  // namespace lyre::ip
