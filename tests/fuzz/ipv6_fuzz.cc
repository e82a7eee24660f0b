// An untrusted IPv6 header and its extension headers.

#include "stack/base/check.h"
#include "stack/wire/ipv6.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lyre;
  const std::span<const uint8_t> bytes(data, size);
  Drop drop = Drop::kCount;
  const auto ip = wire::parse_ipv6(bytes, drop);
  if (!ip) {
    LYRE_CHECK(drop == Drop::kIpTooShort || drop == Drop::kIpBadVersion);
    return 0;
  }
  const auto packet = bytes.first(wire::kIpv6HeaderBytes + ip->payload_bytes);
  std::optional<wire::ParameterProblem> problem;
  drop = Drop::kCount;
  const auto upper = wire::skip_extensions(packet, drop, problem);
  if (!upper) {
    LYRE_CHECK(drop == Drop::kIpFragment || drop == Drop::kIpBadExtension);
    LYRE_CHECK(!problem || problem->pointer < packet.size());
    return 0;
  }
  LYRE_CHECK(upper->offset_bytes <= packet.size() && upper->offset_bytes % 8 == 0);
  LYRE_CHECK(upper->protocol_at < upper->offset_bytes);
  LYRE_CHECK(packet[upper->protocol_at] == upper->protocol);
  return 0;
}
