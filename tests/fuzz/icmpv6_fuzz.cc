// An untrusted ICMPv6 message. Its checksum is corrected, so that the fuzzer reaches the code after
// that check.

#include <vector>

#include "stack/base/check.h"
#include "stack/ip/icmp_error.h"
#include "stack/wire/ndp.h"

namespace lyre {
namespace {

void check_ndp(const wire::AddressPair& addresses, std::span<const uint8_t> message) {
  Drop drop = Drop::kCount;
  const auto ndp = wire::parse_ndp(addresses, wire::kNdpHopLimit, message, drop);
  LYRE_CHECK(ndp || drop == Drop::kNdpMalformed);
  if (!ndp) return;
  LYRE_CHECK(!ndp->source_mac || !ndp->source_mac->is_group());
  LYRE_CHECK(!ndp->target_mac || !ndp->target_mac->is_group());
  const bool is_written = ndp->type == wire::NdpType::kNeighbourSolicitation ||
                          ndp->type == wire::NdpType::kNeighbourAdvertisement ||
                          ndp->type == wire::NdpType::kRouterSolicitation;
  if (!is_written) return;
  std::vector<uint8_t> again(wire::kNdpBytesMax);
  again.resize(wire::write_ndp(*ndp, addresses, again));
  LYRE_CHECK(wire::parse_icmpv6(addresses, again, drop));
  const auto back = wire::parse_ndp(addresses, wire::kNdpHopLimit, again, drop);
  LYRE_CHECK(back && back->target == ndp->target && back->is_solicited == ndp->is_solicited);
}

}  // namespace
}  // namespace lyre

/// The first two bytes select the addresses, the rest is the message.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lyre;
  if (size < 2) return 0;
  wire::AddressPair addresses;
  if (data[0] & 1) addresses.source.bytes[0] = 0xfe;
  if (data[0] & 2) addresses.source.bytes[1] = 0x80;
  addresses.source.bytes[15] = data[0] >> 2;
  addresses.destination.bytes[0] = data[1] & 1 ? 0xff : 0xfd;
  addresses.destination.bytes[15] = data[1] >> 1;
  std::vector<uint8_t> message(data + 2, data + size);
  if (message.size() >= wire::kIcmpHeaderBytes) wire::complete_icmpv6(addresses, message);
  Drop drop = Drop::kCount;
  const auto icmp = wire::parse_icmpv6(addresses, message, drop);
  LYRE_CHECK(icmp.has_value() == (message.size() >= wire::kIcmpHeaderBytes));
  if (!icmp) {
    LYRE_CHECK(drop == Drop::kIcmpMalformed);
    return 0;
  }
  drop = Drop::kCount;
  const auto error = ip::parse_icmpv6_error(*icmp, drop);
  LYRE_CHECK(error || drop < Drop::kCount);
  if (error) {
    LYRE_CHECK(error->mtu_bytes == 0 || error->mtu_bytes >= wire::kIpv6MtuBytesMin);
    LYRE_CHECK(!error->tuple.local.address.is_v4() && !error->tuple.remote.address.is_v4());
  }
  check_ndp(addresses, message);
  return 0;
}
