#include "stack/wire/ipv4.h"

#include "stack/base/checksum.h"
#include "stack/wire/bytes.h"

namespace lyre::wire {
namespace {

constexpr uint16_t kDontFragment = 0x4000;
constexpr uint16_t kMoreFragments = 0x2000;
constexpr uint16_t kOffsetMask = 0x1fff;

std::optional<ParsedIpv4> fail(Drop reason, Drop& drop) {
  drop = reason;
  return std::nullopt;
}

ParsedIpv4 read_fields(const uint8_t* at) {
  const uint16_t fragment = read_be16(at + 6);
  ParsedIpv4 out;
  out.source = IpAddress::v4(read_be32(at + 12));
  out.destination = IpAddress::v4(read_be32(at + 16));
  out.total_bytes = read_be16(at + 2);
  out.id = read_be16(at + 4);
  out.fragment_offset_bytes = static_cast<uint16_t>((fragment & kOffsetMask) * 8);
  out.header_bytes = static_cast<uint8_t>((at[0] & 0x0f) * 4);
  out.protocol = at[9];
  out.ttl = at[8];
  out.dscp = static_cast<uint8_t>(at[1] >> 2);
  out.ecn = static_cast<Ecn>(at[1] & 3);
  out.dont_fragment = (fragment & kDontFragment) != 0;
  out.more_fragments = (fragment & kMoreFragments) != 0;
  return out;
}

}  // namespace

std::optional<ParsedIpv4> parse_ipv4_quoted(std::span<const uint8_t> bytes, Drop& drop) {
  if (bytes.size() < kIpv4HeaderBytesMin) return fail(Drop::kIpTooShort, drop);
  if (bytes[0] >> 4 != 4) return fail(Drop::kIpBadVersion, drop);
  const ParsedIpv4 out = read_fields(bytes.data());
  if (out.header_bytes < kIpv4HeaderBytesMin || out.total_bytes < out.header_bytes) {
    return fail(Drop::kIpBadHeaderLength, drop);
  }
  if (bytes.size() < out.header_bytes) return fail(Drop::kIpTooShort, drop);
  return out;
}

std::optional<ParsedIpv4> parse_ipv4(std::span<const uint8_t> packet, Drop& drop) {
  const std::optional<ParsedIpv4> out = parse_ipv4_quoted(packet, drop);
  if (out && packet.size() < out->total_bytes) return fail(Drop::kIpTooShort, drop);
  return out;
}

bool ipv4_checksum_ok(std::span<const uint8_t> header) {
  ChecksumSum sum;
  sum.add(header);
  return sum.finish() == 0;
}

void write_ipv4(const Ipv4Header& header, ChecksumField checksum,
                std::span<uint8_t, kIpv4HeaderBytesMin> out) {
  uint8_t* at = out.data();
  at[0] = 0x45;
  at[1] = static_cast<uint8_t>(header.marking.dscp << 2 | static_cast<uint8_t>(header.ecn));
  write_be16(at + 2, header.total_bytes);
  write_be16(at + 4, header.id);
  write_be16(at + 6, kDontFragment);
  at[8] = header.marking.hop_limit;
  at[9] = header.protocol;
  write_raw16(at + 10, 0);
  write_be32(at + 12, header.source.as_v4());
  write_be32(at + 16, header.destination.as_v4());
  if (checksum == ChecksumField::kComputed) {
    ChecksumSum sum;
    sum.add(out);
    write_raw16(at + 10, sum.finish());
  }
}

}  // namespace lyre::wire
