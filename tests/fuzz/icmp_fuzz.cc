// An untrusted ICMP message. Its checksum is corrected, so that the fuzzer reaches the code after
// that check.

#include <vector>

#include "stack/base/check.h"
#include "stack/base/checksum.h"
#include "stack/ip/icmp_error.h"
#include "stack/wire/bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lyre;
  std::vector<uint8_t> message(data, data + size);
  if (size >= wire::kIcmpHeaderBytes) {
    wire::write_raw16(message.data() + 2, 0);
    ChecksumSum sum;
    sum.add(message);
    wire::write_raw16(message.data() + 2, sum.finish());
  }
  Drop drop = Drop::kCount;
  const auto icmp = wire::parse_icmp(message, drop);
  LYRE_CHECK(icmp.has_value() == (size >= wire::kIcmpHeaderBytes));
  if (!icmp) {
    LYRE_CHECK(drop == Drop::kIcmpMalformed);
    return 0;
  }
  drop = Drop::kCount;
  const auto error = ip::parse_icmp_error(*icmp, drop);
  LYRE_CHECK(error || drop < Drop::kCount);
  if (error) LYRE_CHECK(error->mtu_bytes == 0 || error->mtu_bytes >= 68);

  if (icmp->type == wire::kIcmpEchoRequest) {
    std::vector<uint8_t> reply = message;
    wire::write_echo_reply(*icmp, reply);
    const auto back = wire::parse_icmp(reply, drop);
    LYRE_CHECK(back && back->echo_id == icmp->echo_id && back->body.size() == icmp->body.size());
  }
  return 0;
}
