#include "stack/wire/icmpv6.h"

#include "stack/wire/bytes.h"
#include "stack/wire/pseudo_header.h"

namespace lyre::wire {
namespace {

constexpr size_t kQuotedUpperBytes = 8;

uint16_t checksum_of(const AddressPair& addresses, std::span<const uint8_t> message) {
  ChecksumSum sum = pseudo_header(addresses.source, addresses.destination,
                                  static_cast<uint32_t>(message.size()), kIpProtocolIcmpv6);
  sum.add(message);
  return sum.finish();
}

}  // namespace

std::optional<ParsedIcmp> parse_icmpv6(const AddressPair& addresses,
                                       std::span<const uint8_t> message, Drop& drop) {
  drop = Drop::kIcmpMalformed;
  if (message.size() < kIcmpHeaderBytes) return std::nullopt;
  if (checksum_of(addresses, message) != 0) return std::nullopt;
  ParsedIcmp out;
  out.type = message[0];
  out.code = message[1];
  out.echo_id = read_be16(message.data() + 4);
  out.echo_sequence = read_be16(message.data() + 6);
  out.next_hop_mtu_bytes = read_be32(message.data() + 4);
  out.body = message.subspan(kIcmpHeaderBytes);
  return out;
}

std::optional<QuotedTcp> parse_quoted_tcp6(std::span<const uint8_t> body, Drop& drop) {
  const std::optional<ParsedIpv6> ip = parse_ipv6_quoted(body, drop);
  std::optional<ParameterProblem> ignored;
  const auto upper = ip ? skip_extensions(body, drop, ignored) : std::nullopt;
  drop = Drop::kIcmpBadQuote;
  if (!upper || upper->protocol != kIpProtocolTcp) return std::nullopt;
  // This host sends no IPv6 packet with a v4-mapped address: the quote would identify an IPv4
  // connection.
  if (ip->source.is_v4() || ip->destination.is_v4()) return std::nullopt;
  if (body.size() < upper->offset_bytes + kQuotedUpperBytes) return std::nullopt;
  const uint8_t* tcp = body.data() + upper->offset_bytes;
  QuotedTcp out;
  out.sent.local = {ip->source, read_be16(tcp)};
  out.sent.remote = {ip->destination, read_be16(tcp + 2)};
  out.seq = SeqNum(read_be32(tcp + 4));
  out.total_bytes = kIpv6HeaderBytes + ip->payload_bytes;
  return out;
}

void complete_icmpv6(const AddressPair& addresses, std::span<uint8_t> message) {
  write_raw16(message.data() + 2, 0);
  write_raw16(message.data() + 2, checksum_of(addresses, message));
}

void write_echo_reply6(const ParsedIcmp& request, const AddressPair& addresses,
                       std::span<uint8_t> out) {
  out[0] = kIcmpv6EchoReply;
  out[1] = 0;
  write_be16(out.data() + 4, request.echo_id);
  write_be16(out.data() + 6, request.echo_sequence);
  complete_icmpv6(addresses, out);
}

void write_parameter_problem(const ParameterProblem& problem, const AddressPair& addresses,
                             std::span<uint8_t> out) {
  out[0] = kIcmpv6ParameterProblem;
  out[1] = problem.code;
  write_be32(out.data() + 4, problem.pointer);
  complete_icmpv6(addresses, out);
}

}  // namespace lyre::wire
