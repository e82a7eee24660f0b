#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "stack/wire/icmpv6.h"

namespace lyre::wire {

/// ICMPv6 types of multicast listener discovery (RFC 2710 3, RFC 3810 5).
inline constexpr uint8_t kMldQuery = 130;
inline constexpr uint8_t kMldReportV1 = 131;
inline constexpr uint8_t kMldReportV2 = 143;

/// RFC 3810 5: MLD packets have a hop limit of 1 and stay on the link.
inline constexpr uint8_t kMldHopLimit = 1;

/// ff02::16: all routers that support MLDv2.
inline constexpr IpAddress kMldRouters{{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16}};

/// A router's query for listeners.
struct MldQuery {
  IpAddress group;  ///< unspecified: all groups
  uint32_t response_ms_max = 0;
  bool is_version1 = false;  ///< from a router that supports version 1 only
};

/// Reads a query whose ICMPv6 checksum was correct.
/// Fails: kIcmpMalformed, also for a query that does not come from this link (RFC 3810 6.2).
std::optional<MldQuery> parse_mld_query(const AddressPair& addresses, uint8_t hop_limit,
                                        std::span<const uint8_t> message, Drop& drop);

/// One listener's report of one group.
struct MldReport {
  IpAddress group;
  bool is_version1 = false;
  bool is_change = false;  ///< version 2: a new membership, not a current one
};

/// Bytes of the hop-by-hop header with the router alert, and of the longest report.
inline constexpr uint16_t kMldBytesMax = 8 + 28;

/// Writes what follows the IPv6 header, whose next header is 0, and returns its length.
/// REQUIRES: `out` has kMldBytesMax.
uint16_t write_mld_report(const MldReport& report, const AddressPair& addresses,
                          std::span<uint8_t> out);

}  // namespace lyre::wire
