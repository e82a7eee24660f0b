#include "stack/wire/ndp.h"

#include <algorithm>

#include "stack/base/check.h"
#include "stack/base/ipv6_address.h"
#include "stack/wire/bytes.h"

namespace lyre::wire {
namespace {

constexpr uint8_t kOptionSourceMac = 1;
constexpr uint8_t kOptionTargetMac = 2;
constexpr size_t kOptionUnitBytes = 8;

constexpr uint8_t kFlagRouter = 0x80;
constexpr uint8_t kFlagSolicited = 0x40;
constexpr uint8_t kFlagOverride = 0x20;

/// Bytes of a message before its options.
size_t fixed_bytes(NdpType type) {
  switch (type) {
    case NdpType::kRouterSolicitation:
      return 8;
    case NdpType::kRouterAdvertisement:
      return 16;
    case NdpType::kNeighbourSolicitation:
    case NdpType::kNeighbourAdvertisement:
      return 24;
    case NdpType::kRedirect:
      return 40;
  }
  return SIZE_MAX;
}

IpAddress read_address(const uint8_t* at) {
  IpAddress out;
  std::copy_n(at, out.bytes.size(), out.bytes.begin());
  return out;
}

/// RFC 4191 2.2: the reserved value is read as medium.
RouterPreference read_preference(uint8_t flags) {
  switch (flags >> 3 & 3) {
    case 1:
      return RouterPreference::kHigh;
    case 3:
      return RouterPreference::kLow;
    default:
      return RouterPreference::kMedium;
  }
}

void read_fixed(const uint8_t* at, NdpMessage& out) {
  switch (out.type) {
    case NdpType::kRouterSolicitation:
      return;
    case NdpType::kRouterAdvertisement:
      out.preference = read_preference(at[5]);
      out.router_lifetime_s = read_be16(at + 6);
      return;
    case NdpType::kNeighbourAdvertisement:
      out.is_router = (at[4] & kFlagRouter) != 0;
      out.is_solicited = (at[4] & kFlagSolicited) != 0;
      out.overrides = (at[4] & kFlagOverride) != 0;
      [[fallthrough]];
    case NdpType::kNeighbourSolicitation:
      out.target = read_address(at + 8);
      return;
    case NdpType::kRedirect:
      out.target = read_address(at + 8);
      out.redirected = read_address(at + 24);
      return;
  }
}

void read_mac(std::span<const uint8_t> option, std::optional<MacAddress>& out) {
  MacAddress mac;
  if (option.size() != kOptionUnitBytes) return;
  std::copy_n(option.data() + 2, mac.bytes.size(), mac.bytes.begin());
  if (!mac.is_group() && mac != MacAddress{}) out = mac;
}

void read_ndp_option(std::span<const uint8_t> option, NdpMessage& out) {
  switch (option[0]) {
    case kOptionSourceMac:
      return read_mac(option, out.source_mac);
    case kOptionTargetMac:
      return read_mac(option, out.target_mac);
    default:
      return;
  }
}

/// RFC 4861 4.6: an option of length zero makes the whole packet invalid.
bool read_ndp_options(std::span<const uint8_t> options, NdpMessage& out) {
  while (!options.empty()) {
    const size_t bytes = options.size() < 2 ? 0 : options[1] * kOptionUnitBytes;
    if (bytes == 0 || bytes > options.size()) return false;
    read_ndp_option(options.first(bytes), out);
    options = options.subspan(bytes);
  }
  return true;
}

/// A v4-mapped address in an IPv6 packet would be confused with an IPv4 address.
bool is_neighbour_address(const IpAddress& address) {
  return !is_ipv6_multicast(address) && !address.is_unspecified() && !address.is_v4();
}

bool is_allowed(const AddressPair& addresses, const NdpMessage& message) {
  const IpAddress& source = addresses.source;
  const IpAddress& destination = addresses.destination;
  switch (message.type) {
    case NdpType::kRouterSolicitation:  // RFC 4861 6.1.1
      return !source.is_unspecified() || !message.source_mac;
    case NdpType::kRouterAdvertisement:  // RFC 4861 6.1.2
      return is_ipv6_link_local(source);
    case NdpType::kNeighbourSolicitation:  // RFC 4861 7.1.1
      if (!is_neighbour_address(message.target)) return false;
      return !source.is_unspecified() ||
             (destination == solicited_node_group(message.target) && !message.source_mac);
    case NdpType::kNeighbourAdvertisement:  // RFC 4861 7.1.2
      return is_neighbour_address(message.target) && is_neighbour_address(source) &&
             !(is_ipv6_multicast(destination) && message.is_solicited);
    case NdpType::kRedirect:  // RFC 4861 8.1
      return is_ipv6_link_local(source) && is_neighbour_address(message.redirected) &&
             (is_ipv6_link_local(message.target) || message.target == message.redirected);
  }
  return false;
}

uint8_t advertisement_flags(const NdpMessage& message) {
  return static_cast<uint8_t>((message.is_router ? kFlagRouter : 0) |
                              (message.is_solicited ? kFlagSolicited : 0) |
                              (message.overrides ? kFlagOverride : 0));
}

uint8_t* write_mac(uint8_t* at, uint8_t kind, const std::optional<MacAddress>& mac) {
  if (!mac) return at;
  at[0] = kind;
  at[1] = 1;
  std::copy(mac->bytes.begin(), mac->bytes.end(), at + 2);
  return at + kOptionUnitBytes;
}

}  // namespace

std::optional<NdpMessage> parse_ndp(const AddressPair& addresses, uint8_t hop_limit,
                                    std::span<const uint8_t> message, Drop& drop) {
  drop = Drop::kNdpMalformed;
  if (message.size() < kIcmpHeaderBytes || !is_ndp_type(message[0])) return std::nullopt;
  NdpMessage out;
  out.type = static_cast<NdpType>(message[0]);
  const size_t fixed = fixed_bytes(out.type);
  const bool is_code_known = message[1] == 0;
  if (hop_limit != kNdpHopLimit || !is_code_known || message.size() < fixed) return std::nullopt;
  read_fixed(message.data(), out);
  if (!read_ndp_options(message.subspan(fixed), out) || !is_allowed(addresses, out)) {
    return std::nullopt;
  }
  return out;
}

uint16_t write_ndp(const NdpMessage& message, const AddressPair& addresses,
                   std::span<uint8_t> out) {
  // The message is this host's own: no input decides its size or its type.
  LYRE_CHECK(out.size() >= kNdpBytesMax);
  uint8_t* const start = out.data();
  const size_t fixed = fixed_bytes(message.type);
  LYRE_CHECK(fixed <= 24 && message.type != NdpType::kRouterAdvertisement);
  std::fill_n(start, fixed, uint8_t{0});
  start[0] = static_cast<uint8_t>(message.type);
  if (message.type == NdpType::kNeighbourAdvertisement) start[4] = advertisement_flags(message);
  if (message.type != NdpType::kRouterSolicitation) {
    std::copy(message.target.bytes.begin(), message.target.bytes.end(), start + 8);
  }
  // RFC 4861 4.3 and 4.4: a solicitation carries its sender's link-layer address, an advertisement
  // the target's.
  uint8_t* end = start + fixed;
  end = message.type == NdpType::kNeighbourAdvertisement
            ? write_mac(end, kOptionTargetMac, message.target_mac)
            : write_mac(end, kOptionSourceMac, message.source_mac);
  const auto bytes = static_cast<uint16_t>(end - start);
  complete_icmpv6(addresses, out.first(bytes));
  return bytes;
}

}  // namespace lyre::wire
