#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "stack/base/drop_reasons.h"
#include "stack/base/ip_address.h"
#include "stack/base/ip_marking.h"
#include "stack/wire/ip.h"

namespace lyre::wire {

inline constexpr uint16_t kIpv6HeaderBytes = 40;
/// RFC 8200 5: every link carries packets of at least this size.
inline constexpr uint32_t kIpv6MtuBytesMin = 1280;

/// An IPv6 header as values. Units: bytes, host order.
struct ParsedIpv6 {
  IpAddress source;
  IpAddress destination;
  uint32_t flow_label = 0;     ///< 20 bits
  uint32_t payload_bytes = 0;  ///< after the header; what follows is padding
  uint8_t next_header = 0;
  uint8_t hop_limit = 0;
  uint8_t dscp = 0;
  Ecn ecn = Ecn::kNotEct;
};

/// Reads the header of a whole packet.
/// Fails: kIpTooShort, kIpBadVersion.
std::optional<ParsedIpv6> parse_ipv6(std::span<const uint8_t> packet, Drop& drop);

/// As parse_ipv6(), for a packet of which only the first bytes are present, as ICMPv6 errors quote
/// it.
std::optional<ParsedIpv6> parse_ipv6_quoted(std::span<const uint8_t> bytes, Drop& drop);

/// The fields of a header that this host sends.
struct Ipv6Header {
  IpAddress source;
  IpAddress destination;
  uint32_t flow_label = 0;  ///< 20 bits
  uint16_t payload_bytes = 0;
  uint8_t next_header = 0;
  IpMarking marking;
  Ecn ecn = Ecn::kNotEct;
};

void write_ipv6(const Ipv6Header& header, std::span<uint8_t, kIpv6HeaderBytes> out);

// ---- Extension headers ----

/// Limits for one packet: extension headers, and options in all of them (RFC 8504 5.3).
inline constexpr uint32_t kExtensionHeadersMax = 8;
inline constexpr uint32_t kExtensionOptionsMax = 32;

/// Codes of an ICMPv6 Parameter Problem (RFC 4443 3.4).
inline constexpr uint8_t kProblemHeaderField = 0;
inline constexpr uint8_t kProblemNextHeader = 1;
inline constexpr uint8_t kProblemOption = 2;

/// The ICMPv6 error to send for a packet that cannot be processed.
struct ParameterProblem {
  uint8_t code = 0;
  bool is_for_multicast_too = false;  ///< RFC 8200 4.2: report even a multicast packet
  uint32_t pointer = 0;               ///< offset in the packet
};

/// Where the extension headers end.
struct UpperLayer {
  uint8_t protocol = 0;
  uint32_t protocol_at = 0;          ///< offset of the next-header byte with `protocol`
  uint32_t offset_bytes = 0;         ///< of the upper layer's header, from the packet's start
  bool had_fragment_header = false;  ///< an atomic fragment (RFC 6946 4)
};

/// Skips the extension headers of `packet`, which is an IPv6 header and its payload.
/// Fails: kIpFragment; kIpBadExtension, with `problem` set where RFC 8200 4 requires an ICMPv6
/// error.
std::optional<UpperLayer> skip_extensions(std::span<const uint8_t> packet, Drop& drop,
                                          std::optional<ParameterProblem>& problem);

}  // namespace lyre::wire
