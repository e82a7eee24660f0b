#include "stack/wire/icmp.h"

#include "stack/base/checksum.h"
#include "stack/wire/bytes.h"
#include "stack/wire/ipv4.h"

namespace lyre::wire {
namespace {

constexpr size_t kQuotedTransportBytes = 8;

}  // namespace

std::optional<ParsedIcmp> parse_icmp(std::span<const uint8_t> message, Drop& drop) {
  drop = Drop::kIcmpMalformed;
  if (message.size() < kIcmpHeaderBytes) return std::nullopt;
  ChecksumSum sum;
  sum.add(message);
  if (sum.finish() != 0) return std::nullopt;
  ParsedIcmp out;
  out.type = message[0];
  out.code = message[1];
  out.echo_id = read_be16(message.data() + 4);
  out.echo_sequence = read_be16(message.data() + 6);
  out.next_hop_mtu_bytes = read_be16(message.data() + 6);
  out.body = message.subspan(kIcmpHeaderBytes);
  return out;
}

std::optional<QuotedTcp> parse_quoted_tcp(std::span<const uint8_t> body, Drop& drop) {
  const std::optional<ParsedIpv4> ip = parse_ipv4_quoted(body, drop);
  drop = Drop::kIcmpBadQuote;
  if (!ip || ip->protocol != kIpProtocolTcp || ip->fragment_offset_bytes != 0) return std::nullopt;
  const std::span<const uint8_t> tcp = body.subspan(ip->header_bytes);
  if (tcp.size() < kQuotedTransportBytes) return std::nullopt;
  QuotedTcp out;
  out.sent.local = {ip->source, read_be16(tcp.data())};
  out.sent.remote = {ip->destination, read_be16(tcp.data() + 2)};
  out.seq = SeqNum(read_be32(tcp.data() + 4));
  out.total_bytes = ip->total_bytes;
  return out;
}

void write_echo_reply(const ParsedIcmp& request, std::span<uint8_t> out) {
  out[0] = kIcmpEchoReply;
  out[1] = 0;
  write_raw16(out.data() + 2, 0);
  write_be16(out.data() + 4, request.echo_id);
  write_be16(out.data() + 6, request.echo_sequence);
  ChecksumSum sum;
  sum.add(out);
  write_raw16(out.data() + 2, sum.finish());
}

}  // namespace lyre::wire
