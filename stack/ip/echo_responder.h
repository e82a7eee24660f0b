#pragma once

#include <cstdint>
#include <optional>

#include "stack/base/drop_reasons.h"
#include "stack/base/nanos.h"
#include "stack/io/packet.h"
#include "stack/ip/input.h"
#include "stack/link/framing.h"

namespace lyre::ip {

/// Echo replies a second that one worker sends, and how many at once.
inline constexpr uint32_t kEchoRepliesPerSecond = 1000;
inline constexpr uint32_t kEchoReplyBurst = 100;

/// Answers pings, within limits. Plain data. Thread: one.
class EchoResponder {
 public:
  /// Fills the empty transmit buffer `out` with the reply to `request`, checksums and all.
  /// Fails: kIcmpRateLimited, or kTxNoBuffer when the data does not fit; `out` is untouched then.
  std::optional<Drop> write_reply(const EchoInput& request, const link::FrameAddresses& addresses,
                                  uint16_t ip_id, Nanos now, io::PacketBuf& out);

 private:
  bool take_token(Nanos now);

  uint32_t tokens_ = kEchoReplyBurst;
  Nanos refilled_at_;
};

}  // namespace lyre::ip
