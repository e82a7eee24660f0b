#include "stack/worker/segment_merger.h"

#include <algorithm>

#include "stack/base/check.h"
#include "stack/ip/header_match.h"
#include "stack/wire/tcp_segment.h"
#include "stack/worker/payload_chain.h"
#include "stack/worker/turn_limits.h"

namespace lyre::worker {

namespace {

constexpr uint8_t kAckOnly = wire::TcpFlags::kAck;
constexpr uint8_t kAckAndPush = wire::TcpFlags::kAck | wire::TcpFlags::kPsh;

bool has_payload_only(const tcp::SegmentIn& segment) {
  return segment.payload_bytes > 0 && segment.options.sack_count == 0;
}

bool continues(const tcp::SegmentIn& merged, const tcp::SegmentIn& next) {
  const bool has_same_fields = next.ack == merged.ack && next.ecn == merged.ecn &&
                               next.options.has_timestamps == merged.options.has_timestamps &&
                               next.options.ts_value == merged.options.ts_value &&
                               next.options.ts_echo == merged.options.ts_echo;
  const bool has_flags = next.flags.bits == kAckOnly || next.flags.bits == kAckAndPush;
  return has_same_fields && has_flags && has_payload_only(next) &&
         next.seq == merged.seq + merged.payload_bytes;
}

/// Small payloads are not chained: they are copied together instead (ReceivedPayload).
bool are_small(uint32_t last_bytes, size_t next_bytes) {
  return last_bytes <= kSmallPayloadBytes && next_bytes <= kSmallPayloadBytes;
}

}  // namespace

bool SegmentMerger::may_begin(const tcp::SegmentIn& segment) {
  return segment.flags.bits == kAckOnly && has_payload_only(segment);
}

void SegmentMerger::begin(const MergedSegment& first) {
  waiting_.push(first);
  if (!ip::can_match_headers(first.headers)) waiting_.back().headers = {};
}

void SegmentMerger::append(MergedSegment& merged, io::PacketBuf& packet,
                           std::span<const uint8_t> payload) {
  reduce_to_payload(packet, payload);
  merged.segment.payload_bytes += packet.length;
  merged.segment.charge_bytes += slot_bytes_;
  ++merged.segment.segment_count;
  merged.last->next_slot = packet.slot;
  merged.last = &packet;
}

SegmentMerger::Append SegmentMerger::try_append(MergedSegment& merged, const tcp::SegmentIn& next,
                                                io::PacketBuf& packet,
                                                std::span<const uint8_t> payload) {
  if (packet.is_super_packet() || !continues(merged.segment, next)) return Append::kRefused;
  if (are_small(merged.last->length, payload.size())) return Append::kRefused;
  append(merged, packet, payload);
  // The window of the latest segment counts. After a change of the window the first headers match
  // no further segment, so those that follow are parsed.
  if (next.window != merged.segment.window) merged.headers = {};
  merged.segment.window = next.window;
  merged.segment.flags = next.flags;
  return next.flags.bits == kAckAndPush ? Append::kLast : Append::kAppended;
}

bool SegmentMerger::try_append_unparsed(io::PacketBuf& packet) {
  if (packet.is_super_packet()) return false;
  for (MergedSegment& merged : waiting_) {
    if (merged.headers.empty()) continue;
    const SeqNum seq = merged.segment.seq + merged.segment.payload_bytes;
    std::span<const uint8_t> payload;
    if (!ip::header_match(packet, merged.headers, seq, payload)) continue;
    if (are_small(merged.last->length, payload.size())) return false;
    append(merged, packet, payload);
    return true;
  }
  return false;
}

MergedSegment SegmentMerger::take(MergedSegment& merged) {
  const MergedSegment taken = merged;
  std::copy(&merged + 1, waiting_.end(), &merged);
  waiting_.pop_back();
  return taken;
}

}  // namespace lyre::worker
