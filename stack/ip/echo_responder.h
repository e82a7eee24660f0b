#pragma once

#include <cstdint>
#include <optional>

#include "stack/base/drop_reasons.h"
#include "stack/base/nanos.h"
#include "stack/base/token_bucket.h"
#include "stack/io/packet.h"
#include "stack/ip/input.h"
#include "stack/link/framing.h"

namespace lyre::ip {

/// Echo replies a second that one worker sends, and the size of a burst.
inline constexpr uint32_t kEchoRepliesPerSecond = 1000;
inline constexpr uint32_t kEchoReplyBurst = 100;

/// ICMPv6 errors a second, and the size of a burst (RFC 4443 2.4 (f)).
inline constexpr uint32_t kIcmpErrorsPerSecond = 100;
inline constexpr uint32_t kIcmpErrorBurst = 20;

/// Answers echo requests and sends Parameter Problems, both rate-limited. Plain data.
/// Thread: one.
class EchoResponder {
 public:
  /// Writes the reply to `request` with its checksums into the empty transmit buffer `out`. `ip_id`
  /// is for IPv4.
  /// Fails: kIcmpRateLimited, or kTxNoBuffer when the data does not fit; `out` is unchanged then.
  std::optional<Drop> write_reply(const EchoInput& request, const link::FrameAddresses& addresses,
                                  uint16_t ip_id, Nanos now, io::PacketBuf& out);
  /// As write_reply(), for a Parameter Problem. It quotes as much of the packet as 1280 bytes hold.
  std::optional<Drop> write_problem(const Refused& refused, const link::FrameAddresses& addresses,
                                    Nanos now, io::PacketBuf& out);

 private:
  TokenBucket replies_{kEchoRepliesPerSecond, kEchoReplyBurst};
  TokenBucket errors_{kIcmpErrorsPerSecond, kIcmpErrorBurst};
};

}  // namespace lyre::ip
