#include "stack/worker/segment_input.h"

#include <optional>
#include <span>

#include "stack/base/drop_reasons.h"
#include "stack/worker/payload_chain.h"
#include "stack/worker/turn_limits.h"

namespace lyre::worker {

namespace {

/// What a SYN-ACK acknowledges; empty for other segments.
std::optional<SeqNum> syn_acked_by(const wire::TcpHeader& header) {
  const bool is_syn_ack = header.flags.has(wire::TcpFlags::kSyn) &&
                          header.flags.has(wire::TcpFlags::kAck) &&
                          !header.flags.has(wire::TcpFlags::kRst);
  return is_syn_ack ? std::optional(header.ack) : std::nullopt;
}

/// A SYN that opens a connection, and answers none.
bool is_lone_syn(wire::TcpFlags flags) {
  return flags.has(wire::TcpFlags::kSyn) && !flags.has(wire::TcpFlags::kAck) &&
         !flags.has(wire::TcpFlags::kRst);
}

}  // namespace

PacketFate SegmentInput::redirect(io::PacketBuf* packet, const FourTuple& tuple,
                                  std::optional<SeqNum> syn_acked) {
  switch (state_.router.redirect(packet, tuple, syn_acked)) {
    case ConnectionRouter::Redirected::kNotClaimed:
      return PacketFate::kUnused;
    case ConnectionRouter::Redirected::kAway:
      state_.stats.worker->redirected_out.add(1);
      return PacketFate::kKept;
    case ConnectionRouter::Redirected::kNoRoom:
      io::release_chain(state_.memory, packet);
      state_.drop(Drop::kRedirectFull);
      return PacketFate::kKept;
  }
  return PacketFate::kUnused;
}

/// Redirects a segment that may be of another worker's connection: none is here, or the one that is
/// here is an open whose SYN the segment does not answer. The home of the 4-tuple may refuse that
/// open yet. Until then segments of the connection that has the 4-tuple may arrive here, and a RST
/// in answer to one would reset that connection. A segment that no other worker takes comes back.
PacketFate SegmentInput::redirect_if_foreign(uint32_t conn, io::PacketBuf* packet,
                                             const FourTuple& tuple,
                                             const wire::TcpHeader& header) {
  if (conn == FlowTable::kNone) return redirect(packet, tuple, syn_acked_by(header));
  if (state_.engine.state(conn) != tcp::State::kSynSent) return PacketFate::kUnused;
  const bool is_answer =
      header.flags.has(wire::TcpFlags::kAck) && header.ack == state_.engine.info(conn).send_next;
  // Not as a SYN-ACK: another worker's open must not move here, where the 4-tuple is in use.
  return is_answer ? PacketFate::kUnused : redirect(packet, tuple);
}

PacketFate SegmentInput::on_tcp(io::PacketBuf* packet, const ip::TcpInput& input,
                                Redirect redirection) {
  const wire::TcpHeader& header = input.parsed.header;
  const uint32_t payload_bytes = static_cast<uint32_t>(input.payload.size()) + packet->rest_bytes;
  const tcp::SegmentIn segment{
      .seq = header.seq,
      .ack = header.ack,
      .flags = header.flags,
      .window = header.window,
      .options = header.options,
      .payload = {.slot = payload_bytes == 0 ? PayloadHandle::kNone : packet->slot},
      .payload_bytes = payload_bytes,
      .charge_bytes = slots_of(*packet) * state_.memory.rx_slot_bytes(),
      .segment_count = slots_of(*packet),
      .rx_time = state_.now,
      .ecn = input.ecn,
  };
  // Earlier segments reach the engine before this one.
  if (MergedSegment* merged = merger_.find(input.tuple)) {
    const auto append = merger_.try_append(*merged, segment, *packet, input.payload);
    if (append != SegmentMerger::Append::kAppended) deliver(merger_.take(*merged));
    if (append != SegmentMerger::Append::kRefused) return PacketFate::kKept;
  }
  const uint32_t conn = state_.find_connection(input.tuple);
  if (redirection == Redirect::kYes &&
      redirect_if_foreign(conn, packet, input.tuple, header) == PacketFate::kKept) {
    return PacketFate::kKept;
  }
  if (conn == FlowTable::kNone) {
    return parts_.passive_open.on_segment(packet, input, segment, std::nullopt);
  }
  if (is_lone_syn(header.flags)) {
    if (const auto fate = try_open_anew(conn, packet, input, segment)) return *fate;
  }
  return on_connection_segment(conn, packet, input, segment);
}

/// A SYN may end what has its 4-tuple, and open the next connection: a TIME-WAIT (RFC 6191), or an
/// open whose client may accept no connection. Empty: the segment is for what has the 4-tuple.
std::optional<PacketFate> SegmentInput::try_open_anew(uint32_t conn, io::PacketBuf* packet,
                                                      const ip::TcpInput& input,
                                                      const tcp::SegmentIn& segment) {
  const auto iss_after = state_.engine.may_reuse(conn, segment);
  const bool is_free = iss_after ? parts_.passive_open.try_reuse(conn, input.tuple)
                                 : parts_.passive_open.try_fail_open(conn);
  if (!is_free) return std::nullopt;
  return parts_.passive_open.on_segment(packet, input, segment, iss_after);
}

/// A segment of an open connection waits for what may continue it, or goes to the engine at once.
PacketFate SegmentInput::on_connection_segment(uint32_t conn, io::PacketBuf* packet,
                                               const ip::TcpInput& input,
                                               const tcp::SegmentIn& segment) {
  const auto header_bytes = static_cast<size_t>(input.payload.data() - packet->data);
  const std::span<const uint8_t> headers(packet->data, header_bytes);
  reduce_to_payload(*packet, input.payload);
  const bool may_wait = state_.config.merge_received && !packet->is_super_packet() &&
                        SegmentMerger::may_begin(segment) &&
                        state_.engine.takes_merged(conn, segment.seq);
  if (!may_wait) return on_segment(conn, segment);
  if (merger_.is_full()) deliver(merger_.take_oldest());
  merger_.begin(
      {.conn = conn, .tuple = input.tuple, .segment = segment, .headers = headers, .last = packet});
  return PacketFate::kKept;
}

/// The connection may have ended or moved while its segments waited: when the table is full,
/// another handshake takes the place of an orphan. Its index may be that of another connection by
/// now.
void SegmentInput::deliver(const MergedSegment& merged) {
  const bool is_there = state_.find_connection(merged.tuple) == merged.conn;
  const uint32_t packets = merged.segment.segment_count;
  if (!is_there) state_.drop(Drop::kTcpNoConnection, packets);
  if (!is_there || on_segment(merged.conn, merged.segment, packets) == PacketFate::kUnused) {
    parts_.payload.release_chain(merged.segment.payload.slot);
  }
}

void SegmentInput::deliver_merged() {
  while (!merger_.is_empty()) deliver(merger_.take_oldest());
}

PacketFate SegmentInput::on_segment(uint32_t conn, const tcp::SegmentIn& segment,
                                    uint32_t packets) {
  state_.stats.worker->tcp_segments_in.add(segment.segment_count);
  if (segment.payload_bytes == 0 || may_keep_payload(conn, segment)) {
    return input(conn, segment, packets);
  }
  tcp::SegmentIn refused = segment;
  refused.has_room = false;
  const PacketFate fate = input(conn, refused, packets);
  parts_.pressure.on_refused(conn);
  return fate;
}

PacketFate SegmentInput::input(uint32_t conn, const tcp::SegmentIn& segment, uint32_t packets) {
  const tcp::Effects effects = state_.engine.on_segment(conn, segment, state_.now);
  if (effects.payload_kept) {
    parts_.payload.on_kept(conn, segment.segment_count);
    // If no payload is unread, there is none to append this one to.
    const bool waits = state_.sessions[conn].has_readable || !effects.has_readable;
    if (waits && is_small(conn, segment)) parts_.payload.join_small(conn, effects.kept_run);
  }
  if (effects.acked_bytes > 0) parts_.holds.on_acked(conn, segment.ack);
  parts_.lifecycle.apply(conn, effects);
  // apply() counts one.
  if (effects.drop && !effects.payload_kept) state_.drop(*effects.drop, packets - 1);
  return effects.payload_kept ? PacketFate::kKept : PacketFate::kUnused;
}

/// Whether the session's client may have more slots. Beyond its share it gets a slot only
/// for the bytes that a reader waits for next: without these it could never release any slot.
bool SegmentInput::has_share(uint32_t conn, const tcp::SegmentIn& segment) {
  parts_.pressure.watch();
  const uint32_t context = state_.sessions[conn].context;
  if (state_.accounts.may_hold(context, state_.memory.rx_slots_free())) return true;
  parts_.pressure.on_limit(context);
  if (!state_.engine.is_next_expected(conn, segment.seq)) return false;
  if (is_small(conn, segment) && parts_.payload.can_join(conn, segment)) return true;
  parts_.payload.prune(conn);  // what is in order comes before what waits behind a gap
  if (!state_.accounts.may_overdraw(context, state_.memory.rx_slots_free())) return false;
  return is_small(conn, segment) || parts_.pressure.has_few_unread(conn);
}

/// Whether the payload should not hold a slot of its own while the one before it is unread. The
/// fuller the session's buffer, the larger it may be.
bool SegmentInput::is_small(uint32_t conn, const tcp::SegmentIn& segment) const {
  if (segment.payload_bytes <= kSmallPayloadBytes) return true;
  return segment.payload_bytes <= state_.memory.rx_slot_bytes() / 2 &&
         state_.engine.charged_bytes(conn) > state_.engine.config(conn).receive_buffer_bytes / 2;
}

}  // namespace lyre::worker
