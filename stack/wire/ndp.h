#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "stack/base/mac_address.h"
#include "stack/wire/icmpv6.h"

namespace lyre::wire {

/// RFC 4861 4.1 - 4.5: the messages of neighbour discovery. The values are ICMPv6 types.
enum class NdpType : uint8_t {
  kRouterSolicitation = 133,
  kRouterAdvertisement = 134,
  kNeighbourSolicitation = 135,
  kNeighbourAdvertisement = 136,
  kRedirect = 137,
};

constexpr bool is_ndp_type(uint8_t icmpv6_type) { return icmpv6_type >= 133 && icmpv6_type <= 137; }

/// RFC 4861 3.1: a packet that arrives with this hop limit was sent on this link.
inline constexpr uint8_t kNdpHopLimit = 255;

/// RFC 4191 2.1: the preference that a router advertises for itself as a default router.
enum class RouterPreference : int8_t { kLow = -1, kMedium = 0, kHigh = 1 };

/// One message. The type determines which members are valid.
struct NdpMessage {
  NdpType type = NdpType::kNeighbourSolicitation;
  IpAddress target;                      ///< solicitation, advertisement, redirect
  IpAddress redirected;                  ///< redirect: the destination to reach through `target`
  std::optional<MacAddress> source_mac;  ///< option 1
  std::optional<MacAddress> target_mac;  ///< option 2
  bool is_router = false;                ///< neighbour advertisement
  bool is_solicited = false;             ///< neighbour advertisement
  bool overrides = false;                ///< neighbour advertisement
  uint16_t router_lifetime_s = 0;        ///< router advertisement; 0: not a default router
  RouterPreference preference{};         ///< router advertisement
};

/// Reads a message whose ICMPv6 checksum was correct, and makes those checks of RFC 4861 that need
/// no knowledge of this host. Unknown options are skipped.
/// Fails: kNdpMalformed.
std::optional<NdpMessage> parse_ndp(const AddressPair& addresses, uint8_t hop_limit,
                                    std::span<const uint8_t> message, Drop& drop);

/// Length of the longest message that write_ndp() writes.
inline constexpr uint16_t kNdpBytesMax = 32;

/// Writes a neighbour or router solicitation or a neighbour advertisement with its checksum to the
/// front of `out`, and returns its length. REQUIRES: `out` has kNdpBytesMax.
uint16_t write_ndp(const NdpMessage& message, const AddressPair& addresses, std::span<uint8_t> out);

}  // namespace lyre::wire
