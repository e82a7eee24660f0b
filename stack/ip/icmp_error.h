#pragma once

#include <cstdint>
#include <optional>

#include "stack/base/drop_reasons.h"
#include "stack/base/ip_address.h"
#include "stack/base/seq_num.h"
#include "stack/wire/icmp.h"

namespace lyre::ip {

/// An ICMP error in TCP's terms. TCP checks that `seq` is in flight (RFC 5927 4.1).
struct IcmpError {
  FourTuple tuple;  ///< the connection that is quoted; local is our side
  SeqNum seq;       ///< of the segment that is quoted
  wire::IcmpVerdict verdict = wire::IcmpVerdict::kSoft;
  uint32_t mtu_bytes = 0;  ///< > 0: the packet was too big; this MTU would fit
};

/// Reads the error that `icmp` reports for a TCP segment of this host.
/// Fails: kIcmpIgnored for messages that are not errors, kIcmpBadQuote, kIcmpMalformed for an MTU
/// that IPv4 does not allow.
std::optional<IcmpError> parse_icmp_error(const wire::ParsedIcmp& icmp, Drop& drop);

/// As parse_icmp_error(), for ICMPv6.
/// Fails: as above; kIcmpMalformed for an MTU that IPv6 does not allow.
std::optional<IcmpError> parse_icmpv6_error(const wire::ParsedIcmp& icmp, Drop& drop);

}  // namespace lyre::ip
