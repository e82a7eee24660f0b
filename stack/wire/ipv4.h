#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "stack/base/drop_reasons.h"
#include "stack/base/ip_address.h"
#include "stack/base/ip_marking.h"
#include "stack/wire/ip.h"

namespace lyre::wire {

inline constexpr uint16_t kIpv4HeaderBytesMin = 20;

/// An IPv4 header as values. Units: bytes, host order.
struct ParsedIpv4 {
  IpAddress source;
  IpAddress destination;
  uint16_t total_bytes = 0;  ///< header and payload; what follows is padding
  uint16_t id = 0;
  uint16_t fragment_offset_bytes = 0;
  uint8_t header_bytes = 0;
  uint8_t protocol = 0;
  uint8_t ttl = 0;
  uint8_t dscp = 0;
  Ecn ecn = Ecn::kNotEct;
  bool dont_fragment = false;
  bool more_fragments = false;

  bool is_fragment() const { return more_fragments || fragment_offset_bytes != 0; }
};

/// Reads the header of a whole packet. Options are skipped; the checksum is not verified.
/// Fails: kIpTooShort, kIpBadVersion, kIpBadHeaderLength.
std::optional<ParsedIpv4> parse_ipv4(std::span<const uint8_t> packet, Drop& drop);

/// As parse_ipv4(), for a packet of which only the first bytes are present, as ICMP errors quote
/// it: the header lies inside `bytes`, and total_bytes may exceed them.
std::optional<ParsedIpv4> parse_ipv4_quoted(std::span<const uint8_t> bytes, Drop& drop);

/// True when the checksum of `header` (the whole header, with its options) is correct.
bool ipv4_checksum_ok(std::span<const uint8_t> header);

/// The fields of a header that this host sends. The others are constant: no options, DF set, no
/// fragments.
struct Ipv4Header {
  IpAddress source;
  IpAddress destination;
  uint16_t total_bytes = 0;
  uint16_t id = 0;
  uint8_t protocol = 0;
  IpMarking marking;
  Ecn ecn = Ecn::kNotEct;
};

enum class ChecksumField : uint8_t { kZero, kComputed };

/// REQUIRES: both addresses are IPv4.
void write_ipv4(const Ipv4Header& header, ChecksumField checksum,
                std::span<uint8_t, kIpv4HeaderBytesMin> out);

}  // namespace lyre::wire
