#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "stack/base/drop_reasons.h"
#include "stack/base/ip_address.h"
#include "stack/base/mac_address.h"
#include "stack/base/nanos.h"
#include "stack/ip/echo_responder.h"
#include "stack/ip/input.h"
#include "stack/tcp/engine.h"

namespace lyre::conformance {

inline constexpr MacAddress kOwnMac{{2, 0, 0, 0, 0, 1}};
inline constexpr MacAddress kPeerMac{{2, 0, 0, 0, 0, 2}};

/// One IP packet that the stack sent, and the time.
struct EmittedPacket {
  std::vector<uint8_t> bytes;
  Nanos at;
};

/// Writes packets with their checksums, and keeps them until the test takes them.
class PacketOutput {
 public:
  /// A segment with `payload`, which is `segment.payload_bytes` long.
  void emit(const FourTuple& tuple, const tcp::SegmentOut& segment,
            std::span<const uint8_t> payload, Nanos now);
  /// Segments a large send as a port would: FIN and PSH on the last segment, CWR on the first.
  /// `queue` holds what is sent from `large.queue_offset` on.
  void emit_cut(const FourTuple& tuple, const tcp::SegmentOut& large,
                std::span<const uint8_t> queue, Nanos now);
  /// Fails: the reason for which no reply is sent.
  std::optional<Drop> reply(const ip::EchoInput& echo, Nanos now);
  /// RFC 8200 4: the sender of a packet that cannot be processed gets an ICMPv6 error.
  void report(const ip::Refused& refused, Nanos now);

  bool is_empty() const { return packets_.empty(); }
  std::optional<EmittedPacket> take();

 private:
  std::deque<EmittedPacket> packets_;
  ip::EchoResponder echo_;
  uint16_t ip_id_ = 0;
};

}  // namespace lyre::conformance
