#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "stack/base/mac_address.h"
#include "stack/wire/icmpv6.h"

namespace lyre::wire {

/// RFC 4861 4.1 - 4.5: the messages of neighbour discovery, which are ICMPv6 types.
enum class NdpType : uint8_t {
  kRouterSolicitation = 133,
  kRouterAdvertisement = 134,
  kNeighbourSolicitation = 135,
  kNeighbourAdvertisement = 136,
  kRedirect = 137,
};

constexpr bool is_ndp_type(uint8_t icmpv6_type) { return icmpv6_type >= 133 && icmpv6_type <= 137; }

/// RFC 4861 3.1: only a neighbour can send a packet that arrives with it.
inline constexpr uint8_t kNdpHopLimit = 255;

/// RFC 4191 2.1: how much a router wants to be the default.
enum class RouterPreference : int8_t { kLow = -1, kMedium = 0, kHigh = 1 };

/// One message. What counts depends on the type.
struct NdpMessage {
  NdpType type = NdpType::kNeighbourSolicitation;
  IpAddress target;                      ///< solicitation, advertisement, redirect
  IpAddress redirected;                  ///< redirect: whose packets shall go to `target`
  std::optional<MacAddress> source_mac;  ///< option 1
  std::optional<MacAddress> target_mac;  ///< option 2
  bool is_router = false;                ///< neighbour advertisement
  bool is_solicited = false;             ///< neighbour advertisement
  bool overrides = false;                ///< neighbour advertisement
  uint16_t router_lifetime_s = 0;        ///< router advertisement; 0: not a default router
  RouterPreference preference{};         ///< router advertisement
};

/// Reads a message whose ICMPv6 checksum was right, and makes the checks that RFC 4861 asks for and
/// that need no knowledge of this host. Options that are not known are skipped.
/// Fails: kNdpMalformed.
std::optional<NdpMessage> parse_ndp(const AddressPair& addresses, uint8_t hop_limit,
                                    std::span<const uint8_t> message, Drop& drop);

/// Longest message that write_ndp() makes.
inline constexpr uint16_t kNdpBytesMax = 32;

/// Writes a neighbour or router solicitation or a neighbour advertisement, checksum and all, to the
/// front of `out`, and returns its length. REQUIRES: `out` has kNdpBytesMax.
uint16_t write_ndp(const NdpMessage& message, const AddressPair& addresses, std::span<uint8_t> out);

}  // namespace lyre::wire
