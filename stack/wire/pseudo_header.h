#pragma once

#include <cstdint>
#include <span>

#include "stack/base/checksum.h"
#include "stack/base/ip_address.h"

namespace lyre::wire {

/// The sum of the pseudo-header of RFC 9293 3.1 (IPv4) or RFC 8200 8.1 (IPv6), without the data of
/// `protocol`. REQUIRES: both addresses are of one family.
inline ChecksumSum pseudo_header(const IpAddress& source, const IpAddress& destination,
                                 uint32_t upper_bytes, uint8_t protocol) {
  // The 16-bit length and protocol of IPv4 have the same sum as the 32-bit fields of RFC 8200 8.1.
  const size_t skip = source.is_v4() ? 12 : 0;
  ChecksumSum sum;
  sum.add(std::span(source.bytes).subspan(skip));
  sum.add(std::span(destination.bytes).subspan(skip));
  sum.add_u16(static_cast<uint16_t>(upper_bytes >> 16));
  sum.add_u16(static_cast<uint16_t>(upper_bytes));
  sum.add_u16(protocol);
  return sum;
}

}  // namespace lyre::wire
