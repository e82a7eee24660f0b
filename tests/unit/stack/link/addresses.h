#pragma once

#include "stack/base/ip_address.h"
#include "stack/base/ipv6_address.h"
#include "stack/base/mac_address.h"

namespace lyre::link {

/// The hosts of the tests: this one, a neighbour, and one that claims an address of theirs.
inline constexpr MacAddress kOwnMac{{2, 0, 0, 0, 0, 1}};
inline constexpr MacAddress kPeerMac{{2, 0, 0, 0, 0, 2}};
inline constexpr MacAddress kOtherMac{{2, 0, 0, 0, 0, 3}};
inline constexpr IpAddress kOwn{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
inline constexpr IpAddress kOwnLinkLocal = link_local_address(kOwnMac);
inline constexpr IpAddress kPeer{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

}  // namespace lyre::link
