#pragma once

#include <cstdint>

#include "stack/base/buf_ref.h"
#include "stack/base/nanos.h"
#include "stack/base/seq_num.h"
#include "stack/wire/ip.h"
#include "stack/wire/tcp_segment.h"

namespace lyre::tcp {

/// A received segment as input to the engine. Options are parsed, the checksum was correct.
struct SegmentIn {
  SeqNum seq;
  SeqNum ack;
  wire::TcpFlags flags;
  uint16_t window = 0;  ///< as on the wire, unscaled
  wire::TcpOptions options;
  PayloadHandle payload;  ///< kNone when payload_bytes is 0
  uint32_t payload_bytes = 0;
  uint32_t charge_bytes = 0;  ///< charge for keeping the payload's packets (their slots)
  /// Merged segments, see Engine::takes_merged(), or receive slots of one large segment.
  uint32_t segment_count = 1;
  bool has_room = true;                ///< false: the receive pool has no place for the payload
  Nanos rx_time;                       ///< <= now
  wire::Ecn ecn = wire::Ecn::kNotEct;  ///< of the IP header
};

/// A segment to send. The payload is identified by its position in the send queue: [queue_offset,
/// queue_offset + payload_bytes), counted from the oldest unacknowledged byte.
struct SegmentOut {
  SeqNum seq;
  SeqNum ack;
  wire::TcpFlags flags;
  uint16_t window = 0;  ///< as on the wire, scaled already
  wire::TcpOptions options;
  uint32_t queue_offset = 0;
  uint32_t payload_bytes = 0;          ///< up to the TSO limit; segmented by `mss_bytes`
  uint16_t mss_bytes = 0;              ///< payload of one segment on the wire
  wire::Ecn ecn = wire::Ecn::kNotEct;  ///< for the IP header
  bool is_retransmission = false;
};

}  // namespace lyre::tcp
