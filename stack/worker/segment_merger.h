#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stack/base/bounded_vector.h"
#include "stack/base/ip_address.h"
#include "stack/io/packet.h"
#include "stack/tcp/segment.h"

namespace lyre::worker {

/// Connections that may have a merged segment waiting at one time.
inline constexpr size_t kMergedSegmentsMax = 8;

/// Consecutive segments of one connection, which reach the engine as one.
struct MergedSegment {
  uint32_t conn = UINT32_MAX;  ///< the owner's name for the connection
  FourTuple tuple;
  tcp::SegmentIn segment;  ///< stands for all; its payload is the slot of the first packet
  std::span<const uint8_t> headers;  ///< of the first packet, for header_match(); may be empty
  io::PacketBuf* last = nullptr;     ///< the last packet of the chain
};

/// Merges consecutive segments of a connection that arrive in one burst, so that the engine
/// processes them once (as GRO does). Only payload that is next in order is merged, and only
/// segments that differ in nothing but payload, sequence number, window and PSH: never across a
/// change of flags, CE, timestamps or ACK. A super-packet is not merged: it is as large as that.
/// Invariants: at most one merged segment of each connection waits; its packets are reduced to
/// their payload and chained in sequence; payload_bytes, charge_bytes and segment_count of
/// `segment` are the sums of theirs. Owner: packets of segments that wait belong to the merger
/// until take(). Thread: the worker.
class SegmentMerger {
 public:
  /// What became of a segment that was offered.
  enum class Append : uint8_t {
    kRefused,   ///< it does not continue the merged segment, which must be delivered before it
    kAppended,  ///< it is part of the merged segment
    kLast,      ///< appended, and its PSH ends the merged segment, which must be delivered
  };

  explicit SegmentMerger(uint32_t slot_bytes) : slot_bytes_(slot_bytes) {}

  bool is_empty() const { return waiting_.empty(); }
  bool is_full() const { return waiting_.full(); }

  /// Whether a segment can be the first of a merged one: payload, no SACK, and ACK its only flag.
  static bool may_begin(const tcp::SegmentIn& segment);
  /// `first.segment` waits for segments that continue it; `first.last` is its packet, reduced to
  /// the payload. REQUIRES: may_begin(first.segment), !is_full(), find(first.tuple) == nullptr.
  void begin(const MergedSegment& first);

  /// The merged segment of a connection, or nullptr.
  MergedSegment* find(const FourTuple& tuple) {
    for (MergedSegment& merged : waiting_) {
      if (merged.tuple == tuple) return &merged;
    }
    return nullptr;
  }
  /// Appends `next` and its packet, unless it is refused.
  Append try_append(MergedSegment& merged, const tcp::SegmentIn& next, io::PacketBuf& packet,
                    std::span<const uint8_t> payload);
  /// Appends a packet that continues a merged segment, as its headers show without being parsed.
  bool try_append_unparsed(io::PacketBuf& packet);

  /// Owner: the caller takes the packets.
  MergedSegment take(MergedSegment& merged);
  /// The merged segment that waits longest. REQUIRES: !is_empty().
  MergedSegment take_oldest() { return take(waiting_[0]); }

 private:
  void append(MergedSegment& merged, io::PacketBuf& packet, std::span<const uint8_t> payload);

  uint32_t slot_bytes_;
  BoundedVector<MergedSegment, kMergedSegmentsMax> waiting_;  ///< the oldest first
};

}  // namespace lyre::worker
