#include "stack/ip/icmp_error.h"

#include <array>

#include "stack/wire/icmpv6.h"

namespace lyre::ip {
namespace {

using wire::IcmpVerdict;

/// RFC 791 3.2: every link carries packets of at least this size.
constexpr uint32_t kMtuBytesMin = 68;

/// RFC 1191 7: plateau MTUs, for routers that do not report theirs.
constexpr std::array<uint16_t, 10> kMtuPlateaus = {32000, 17914, 8166, 4352, 2002,
                                                   1492,  1006,  508,  296,  68};

uint32_t plateau_below(uint32_t total_bytes) {
  for (const uint16_t plateau : kMtuPlateaus) {
    if (plateau < total_bytes) return plateau;
  }
  return kMtuBytesMin;
}

/// RFC 1122 4.2.3.9: codes 2 to 4 are hard errors; 4 is the "fragmentation needed" of path MTU
/// discovery. The prohibitions that RFC 1812 5.2.7.1 added are administrative and therefore not
/// temporary either.
IcmpVerdict verdict_of_unreachable(uint8_t code) {
  switch (code) {
    case wire::kUnreachableProtocol:
    case wire::kUnreachablePort:
      return IcmpVerdict::kRefused;
    case wire::kUnreachableNetworkProhibited:
    case wire::kUnreachableHostProhibited:
    case wire::kUnreachableProhibited:
      return IcmpVerdict::kUnreachable;
    default:
      return IcmpVerdict::kSoft;
  }
}

bool is_error(uint8_t type) {
  return type == wire::kIcmpUnreachable || type == wire::kIcmpTimeExceeded ||
         type == wire::kIcmpParameterProblem;
}

/// RFC 4443 3.1, and RFC 1122 4.2.3.9 applied to ICMPv6: a prohibited destination and a port
/// without listener are not temporary.
IcmpVerdict verdict_of_unreachable6(uint8_t code) {
  switch (code) {
    case wire::kUnreachable6Port:
      return IcmpVerdict::kRefused;
    case wire::kUnreachable6Prohibited:
    case wire::kUnreachable6Policy:
    case wire::kUnreachable6Reject:
      return IcmpVerdict::kUnreachable;
    default:
      return IcmpVerdict::kSoft;
  }
}

/// RFC 4443 3.4: a host that does not recognise TCP as a next header will not accept a later
/// attempt.
IcmpVerdict verdict_of6(const wire::ParsedIcmp& icmp) {
  if (icmp.type == wire::kIcmpv6Unreachable) return verdict_of_unreachable6(icmp.code);
  const bool speaks_no_tcp =
      icmp.type == wire::kIcmpv6ParameterProblem && icmp.code == wire::kProblemNextHeader;
  return speaks_no_tcp ? IcmpVerdict::kRefused : IcmpVerdict::kSoft;
}

}  // namespace

std::optional<IcmpError> parse_icmp_error(const wire::ParsedIcmp& icmp, Drop& drop) {
  if (!is_error(icmp.type)) {
    drop = Drop::kIcmpIgnored;
    return std::nullopt;
  }
  const std::optional<wire::QuotedTcp> quoted = wire::parse_quoted_tcp(icmp.body, drop);
  if (!quoted) return std::nullopt;
  IcmpError error{.tuple = quoted->sent, .seq = quoted->seq};
  if (icmp.type != wire::kIcmpUnreachable) return error;
  error.verdict = verdict_of_unreachable(icmp.code);
  if (icmp.code != wire::kUnreachableTooBig) return error;
  error.mtu_bytes = icmp.next_hop_mtu_bytes;
  if (error.mtu_bytes == 0) error.mtu_bytes = plateau_below(quoted->total_bytes);
  if (error.mtu_bytes < kMtuBytesMin) {
    drop = Drop::kIcmpMalformed;
    return std::nullopt;
  }
  return error;
}

std::optional<IcmpError> parse_icmpv6_error(const wire::ParsedIcmp& icmp, Drop& drop) {
  if (icmp.type < wire::kIcmpv6Unreachable || icmp.type > wire::kIcmpv6ParameterProblem) {
    drop = Drop::kIcmpIgnored;
    return std::nullopt;
  }
  const std::optional<wire::QuotedTcp> quoted = wire::parse_quoted_tcp6(icmp.body, drop);
  if (!quoted) return std::nullopt;
  IcmpError error{.tuple = quoted->sent, .seq = quoted->seq, .verdict = verdict_of6(icmp)};
  if (icmp.type != wire::kIcmpv6TooBig) return error;
  error.mtu_bytes = icmp.next_hop_mtu_bytes;
  // RFC 8201 4: such a message must be discarded.
  if (error.mtu_bytes < wire::kIpv6MtuBytesMin) {
    drop = Drop::kIcmpMalformed;
    return std::nullopt;
  }
  return error;
}

}  // namespace lyre::ip
