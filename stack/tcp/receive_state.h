#pragma once

#include <array>
#include <cstdint>

#include "stack/base/buf_ref.h"
#include "stack/base/nanos.h"
#include "stack/base/seq_num.h"
#include "stack/base/slab.h"
#include "stack/wire/tcp_segment.h"

namespace lyre::tcp {

/// No item of a slab.
inline constexpr uint32_t kNoNode = Slab<uint32_t>::kNone;

/// A received payload, or the part of it that trimming left, in the list sorted by sequence.
struct ReceivedRun {
  SeqNum start;
  uint32_t length = 0;
  uint32_t offset = 0;  ///< offset of `start` in the payload
  uint32_t charge_bytes = 0;
  PayloadHandle handle;
  uint32_t next = kNoNode;
  uint32_t prev = kNoNode;
  uint32_t left = kNoNode;  ///< this and the next two are RunIndex's
  uint32_t right = kNoNode;
  uint32_t parent = kNoNode;

  SeqNum end() const { return start + length; }
};

/// RFC 9293 3.3.1, receive sequence space, and the receive queue.
struct ReceiveState {
  SeqNum nxt;
  SeqNum edge;   ///< nxt + window as the peer knows it; never moves left
  SeqNum acked;  ///< Last.ACK.sent of RFC 7323 4.3
  uint32_t run_head = kNoNode;
  uint32_t run_tail = kNoNode;
  uint32_t gap_head = kNoNode;         ///< the first run that is not in order: after the first gap
  uint32_t superseded_head = kNoNode;  ///< runs inside a later segment, for take_superseded()
  uint32_t charged_bytes = 0;          ///< of all payload that is kept or lent out
  uint32_t buffer_bytes = 0;           ///< current limit of charge: auto-tuned, never shrinks
  uint32_t round_read_bytes = 0;       ///< charge that the application released since round_at
  Nanos round_at;
  Nanos rtt;  ///< as the receiver estimates it; zero: no sample yet
  Nanos window_round_at;
  SeqNum window_round_end;     ///< when this number arrives, at least a round trip has passed
  uint32_t unacked_bytes = 0;  ///< arrived in order since the last ACK
  uint32_t ts_recent = 0;
  uint32_t payload_sum_bytes = 0;  ///< recent payload and its charge: their ratio converts
  uint32_t charge_sum_bytes = 0;   ///< free charge into window
  uint16_t segment_bytes_max = 0;  ///< the peer's full-sized segment, as observed
  uint8_t scale = 0;
  uint8_t quick_acks = 0;     ///< so many segments are still acknowledged at once
  uint8_t dup_acks_owed = 0;  ///< RFC 5681 4.2: one for each segment out of order
  uint8_t sack_count = 0;
  bool ack_now : 1 = false;
  bool has_fin : 1 = false;    ///< a FIN arrived, maybe out of order, at fin_seq
  bool has_dsack : 1 = false;  ///< RFC 2883: report `dsack` once
  /// The next text in order found no room, and nothing was released since: the peer is told a
  /// window of zero.
  bool was_refused : 1 = false;
  /// A timestamp echo returned within one clock tick, and the minimum RTT was far below a tick.
  bool saw_short_round : 1 = false;
  bool is_told_closed : 1 = false;  ///< the last window field was zero
  /// The low bits of the size of the last segment that was smaller than segment_bytes_max, and not
  /// the end of a message. No record has it: a successor counts anew.
  uint16_t smaller_size : 10 = 0;
  uint32_t gap_root = kNoNode;  ///< RunIndex of the runs behind the first gap
  SeqNum fin_seq;
  SeqNum irs;
  wire::SackBlock dsack;
  std::array<wire::SackBlock, wire::kSackBlocksMax> sacks{};  ///< RFC 2018 4: latest first
};

}  // namespace lyre::tcp
