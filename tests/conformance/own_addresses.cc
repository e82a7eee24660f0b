#include "tests/conformance/own_addresses.h"

#include "stack/base/check.h"
#include "stack/base/drop_reasons.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"

namespace lyre::conformance {
namespace {

constexpr uint8_t kPrefixBitsV4 = 96 + 24;
constexpr uint8_t kPrefixBitsV6 = 64;

uint8_t prefix_bits(const IpAddress& address) {
  return address.is_v4() ? kPrefixBitsV4 : kPrefixBitsV6;
}

}  // namespace

OwnAddresses::OwnAddresses(const StackOptions& options) {
  for (const IpAddress& local : {options.local_v4, options.local_v6}) {
    LYRE_CHECK(routes_.add_address(0, local, prefix_bits(local)));
    IpAddress gateway = local;
    gateway.bytes[15] = 254;
    LYRE_CHECK(routes_.add_route(ip::Prefix::all_of_family(local), gateway, 0));
  }
}

void OwnAddresses::learn_from(std::span<const uint8_t> packet) {
  Drop ignored;
  const bool is_v6 = !packet.empty() && (packet[0] >> 4) == 6;
  const auto v4 = wire::parse_ipv4(packet, ignored);
  const auto v6 = wire::parse_ipv6(packet, ignored);
  if (is_v6 ? !v6.has_value() : !v4.has_value()) return;
  const IpAddress address = is_v6 ? v6->destination : v4->destination;
  if (routes_.is_own(address) || routes_.is_martian_source(address)) return;
  routes_.add_address(0, address, prefix_bits(address));
}

}  // namespace lyre::conformance
