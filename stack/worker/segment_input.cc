#include <optional>

#include "stack/ip/input.h"
#include "stack/tcp/engine.h"
#include "stack/tcp/segment.h"
#include "stack/worker/flow_table.h"
#include "stack/worker/impl.h"
#include "stack/worker/payload_chain.h"
#include "stack/worker/segment_merger.h"

/// A TCP segment on its way to its connection: found by its 4-tuple, merged with its predecessors,
/// given to the engine.
namespace lyre::worker {

uint32_t Worker::Impl::find_connection(const FourTuple& tuple) const {
  return flows.find(tuple,
                    [this](uint32_t conn) -> const FourTuple& { return engine.tuple(conn); });
}

PacketFate Worker::Impl::on_tcp(io::PacketBuf* packet, const ip::TcpInput& input,
                                Redirect redirection) {
  const wire::TcpHeader& header = input.parsed.header;
  const tcp::SegmentIn segment{
      .seq = header.seq,
      .ack = header.ack,
      .flags = header.flags,
      .window = header.window,
      .options = header.options,
      .payload = {.slot = input.payload.empty() ? PayloadHandle::kNone : packet->slot},
      .payload_bytes = static_cast<uint32_t>(input.payload.size()),
      .charge_bytes = memory.rx_slot_bytes(),
      .rx_time = now,
      .ecn = input.ecn,
  };
  // First of all: whatever else this segment does, the ones before it must have reached the engine.
  if (MergedSegment* merged = merger.find(input.tuple)) {
    const auto append = merger.try_append(*merged, segment, *packet, input.payload);
    if (append != SegmentMerger::Append::kAppended) deliver(merger.take(*merged));
    if (append != SegmentMerger::Append::kRefused) return PacketFate::kKept;
  }
  const uint32_t conn = find_connection(input.tuple);
  if (conn == FlowTable::kNone) {
    if (redirection == Redirect::kYes && redirect(packet, input.tuple) == PacketFate::kKept) {
      return PacketFate::kKept;
    }
    return on_unmatched(packet, input, segment, std::nullopt);
  }
  // RFC 6191: a SYN may end a TIME-WAIT and open the next connection.
  if (const auto iss_after = engine.may_reuse(conn, segment)) {
    if (try_make_way(conn, input.tuple)) return on_unmatched(packet, input, segment, iss_after);
  }
  return on_connection_segment(conn, packet, input, segment);
}

/// A segment of an open connection waits for what may continue it, or goes to the engine at once.
PacketFate Worker::Impl::on_connection_segment(uint32_t conn, io::PacketBuf* packet,
                                               const ip::TcpInput& input,
                                               const tcp::SegmentIn& segment) {
  const auto header_bytes = static_cast<size_t>(input.payload.data() - packet->data);
  const std::span<const uint8_t> headers(packet->data, header_bytes);
  reduce_to_payload(*packet, input.payload);
  const bool may_wait = config.merge_received && SegmentMerger::may_begin(segment) &&
                        engine.takes_merged(conn, segment.seq);
  if (!may_wait) return on_segment(conn, segment);
  if (merger.is_full()) deliver(merger.take_oldest());
  merger.begin(
      {.conn = conn, .tuple = input.tuple, .segment = segment, .headers = headers, .last = packet});
  return PacketFate::kKept;
}

void Worker::Impl::deliver(const MergedSegment& merged) {
  if (on_segment(merged.conn, merged.segment) == PacketFate::kUnused) {
    release_chain(merged.segment.payload.slot);
  }
}

void Worker::Impl::deliver_merged() {
  while (!merger.is_empty()) deliver(merger.take_oldest());
}

PacketFate Worker::Impl::on_segment(uint32_t conn, const tcp::SegmentIn& segment) {
  stats.worker->tcp_segments_in.add(segment.segment_count);
  if (segment.payload_bytes > 0 && !may_keep_payload(conn, segment)) {
    drop(Drop::kRxPoolLow);
    return PacketFate::kUnused;
  }
  tcp::Effects effects;
  engine.on_segment(conn, segment, now, effects);
  apply(conn, effects);
  return effects.payload_kept ? PacketFate::kKept : PacketFate::kUnused;
}

/// When the pool runs low, sessions that hold much of it get no more, except for the very bytes
/// that their reader waits for: without these they could never give anything back.
bool Worker::Impl::may_keep_payload(uint32_t conn, const tcp::SegmentIn& segment) const {
  if (!loans.is_low(memory.rx_slots_free())) return true;
  if (engine.is_next_expected(conn, segment.seq) && !sessions[conn].has_readable) return true;
  if (loans.is_reserve(memory.rx_slots_free())) return false;
  return engine.charged_bytes(conn) < kRxFairSlots * memory.rx_slot_bytes();
}

}  // namespace lyre::worker
