#include "stack/wire/ipv6.h"

#include <algorithm>

#include "stack/wire/bytes.h"

namespace lyre::wire {

std::optional<ParsedIpv6> parse_ipv6_quoted(std::span<const uint8_t> bytes, Drop& drop) {
  if (bytes.size() < kIpv6HeaderBytes) {
    drop = Drop::kIpTooShort;
    return std::nullopt;
  }
  const uint8_t* at = bytes.data();
  const uint32_t first = read_be32(at);
  if (first >> 28 != 6) {
    drop = Drop::kIpBadVersion;
    return std::nullopt;
  }
  ParsedIpv6 out;
  out.dscp = static_cast<uint8_t>(first >> 22 & 0x3f);
  out.ecn = static_cast<Ecn>(first >> 20 & 3);
  out.flow_label = first & 0xfffff;
  out.payload_bytes = read_be16(at + 4);
  out.next_header = at[6];
  out.hop_limit = at[7];
  std::copy_n(at + 8, 16, out.source.bytes.begin());
  std::copy_n(at + 24, 16, out.destination.bytes.begin());
  return out;
}

std::optional<ParsedIpv6> parse_ipv6(std::span<const uint8_t> packet, Drop& drop) {
  const std::optional<ParsedIpv6> out = parse_ipv6_quoted(packet, drop);
  if (out && packet.size() < size_t{kIpv6HeaderBytes} + out->payload_bytes) {
    drop = Drop::kIpTooShort;
    return std::nullopt;
  }
  return out;
}

void write_ipv6(const Ipv6Header& header, std::span<uint8_t, kIpv6HeaderBytes> out) {
  uint8_t* at = out.data();
  const uint32_t traffic_class = header.marking.dscp << 2 | static_cast<uint32_t>(header.ecn);
  write_be32(at, 6u << 28 | traffic_class << 20 | (header.flow_label & 0xfffff));
  write_be16(at + 4, header.payload_bytes);
  at[6] = header.next_header;
  at[7] = header.marking.hop_limit;
  std::copy(header.source.bytes.begin(), header.source.bytes.end(), at + 8);
  std::copy(header.destination.bytes.begin(), header.destination.bytes.end(), at + 24);
}

}  // namespace lyre::wire
