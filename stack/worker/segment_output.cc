#include "stack/worker/segment_output.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "stack/base/buf_ref.h"
#include "stack/base/check.h"
#include "stack/channel/abi.h"
#include "stack/ip/output.h"
#include "stack/wire/tcp_segment.h"
#include "stack/worker/port.h"
#include "stack/worker/tso_fit.h"
#include "stack/worker/turn_limits.h"

namespace lyre::worker {

namespace {

/// Only the first part of a segment has CWR, only the last has PSH and FIN.
wire::TcpFlags flags_of_part(const tcp::SegmentOut& segment, bool is_first, bool is_last) {
  wire::TcpFlags flags = segment.flags;
  if (!is_first) flags.bits &= static_cast<uint8_t>(~wire::TcpFlags::kCwr);
  if (!is_last) {
    flags.bits &= static_cast<uint8_t>(~(wire::TcpFlags::kPsh | wire::TcpFlags::kFin));
  }
  return flags;
}

}  // namespace

size_t SegmentOutput::send(uint32_t conn, const tcp::SegmentOut& segment, MacAddress mac) {
  output_.count(segment);
  if (segment.payload_bytes <= segment.mss_bytes) {
    return send_part(conn, segment, mac, nullptr) != nullptr ? 1 : 0;
  }
  tcp::SegmentOut part = segment;
  const io::PacketBuf* model = nullptr;  // a packet of one MSS, without FIN, PSH and CWR
  size_t built = 0;
  for (uint32_t left = segment.payload_bytes; left > 0; left -= part.payload_bytes, ++built) {
    part.payload_bytes = left;
    if (io::PacketBuf* uncut = try_make_uncut(conn, part)) {
      part.flags = flags_of_part(segment, built == 0, part.payload_bytes == left);
      finish_packet(conn, part, *uncut, mac, nullptr);
    } else {
      part.payload_bytes = std::min<uint32_t>(left, segment.mss_bytes);
      const bool is_last = part.payload_bytes == left;
      part.flags = flags_of_part(segment, built == 0, is_last);
      const io::PacketBuf* single = send_part(conn, part, mac, is_last ? nullptr : model);
      if (single == nullptr) return built;
      if (built > 0 || !part.flags.has(wire::TcpFlags::kCwr)) model = single;
    }
    part.seq += part.payload_bytes;
    part.queue_offset += part.payload_bytes;
  }
  return built;
}

/// One packet on the wire, with headers of its own or those of `model`; nullptr without a buffer.
io::PacketBuf* SegmentOutput::send_part(uint32_t conn, const tcp::SegmentOut& part, MacAddress mac,
                                        const io::PacketBuf* model) {
  io::PacketBuf* packet = make_packet(conn, part);
  if (packet == nullptr) {
    state_.drop(Drop::kTxNoBuffer);
    return nullptr;
  }
  finish_packet(conn, part, *packet, mac, model);
  return packet;
}

/// Writes the headers and queues the packet where it goes.
void SegmentOutput::finish_packet(uint32_t conn, const tcp::SegmentOut& segment,
                                  io::PacketBuf& packet, MacAddress mac,
                                  const io::PacketBuf* model) {
  session::Session& sender = state_.session(conn);
  if (segment.is_retransmission) {
    sender.was_retransmitted = true;
    // An ACK proves that the port has read what it sent first, but not what it sent again.
    if (packet.piece_count > 0) sender.fence = state_.ports[sender.port].queued() + 1;
  }
  if (model != nullptr) {
    ip::repeat_tcp_packet(packet, *model, segment.seq, output_.next_ip_id());
  } else {
    output_.write_headers(packet, state_.engine.tuple(conn), segment, sender.port, mac,
                          {.flow_label = sender.flow_label, .marking = sender.marking});
  }
  if (sender.is_local) {
    output_.deliver_locally(&packet);
  } else {
    state_.ports[sender.port].queue(&packet);
  }
}

/// A packet for a port that cuts, with as much of `part` as fits: part.payload_bytes becomes that.
/// nullptr where that is not more than one packet on the wire, and the worker must cut.
io::PacketBuf* SegmentOutput::try_make_uncut(uint32_t conn, tcp::SegmentOut& part) {
  session::Session& sender = state_.session(conn);
  if (sender.is_local || part.payload_bytes <= part.mss_bytes) return nullptr;
  if (part.is_retransmission || part.mss_bytes < kTsoMssMin) return nullptr;
  const io::IoCapabilities& port = state_.ports[sender.port].capabilities();
  const auto in_whole_cuts = [&](uint32_t bytes) { return bytes - bytes % part.mss_bytes; };
  uint32_t bytes = part.payload_bytes;
  const uint32_t bytes_max = port.tso_bytes_max_of(state_.engine.tuple(conn).remote.address);
  if (bytes > bytes_max) bytes = in_whole_cuts(bytes_max);
  if (bytes <= part.mss_bytes) return nullptr;
  io::PacketBuf* packet = output_.alloc();
  if (packet == nullptr) return nullptr;
  const uint32_t pieces_max = std::min(port.tx_pieces_max, io::kTxPiecesMax);
  const uint32_t count = state_.sends.gather_some(sender.sends, part.queue_offset, bytes,
                                                  {packet->pieces, pieces_max});
  uint32_t fits =
      tso_payload_that_fits({packet->pieces, count}, state_.region_segment_bytes.data(),
                            part.mss_bytes, {port.tso_segments_max, port.cut_segments_max});
  if (fits < part.payload_bytes) fits = in_whole_cuts(fits);
  if (fits <= part.mss_bytes) {
    output_.put_back(packet);
    return nullptr;
  }
  packet->piece_count = static_cast<uint8_t>(shorten_pieces({packet->pieces, count}, fits));
  packet->tso_bytes = part.mss_bytes;
  part.payload_bytes = fits;
  return packet;
}

/// Attaches the segment's payload to the packet as pieces; false where the port cannot gather so
/// many.
bool SegmentOutput::try_gather(uint32_t conn, const tcp::SegmentOut& segment,
                               io::PacketBuf& packet) {
  session::Session& sender = state_.session(conn);
  const uint32_t limit =
      std::min(state_.ports[sender.port].capabilities().tx_pieces_max, io::kTxPiecesMax);
  const uint32_t count = state_.sends.gather(sender.sends, segment.queue_offset,
                                             segment.payload_bytes, {packet.pieces, limit});
  packet.piece_count = static_cast<uint8_t>(count);
  return count > 0;
}

/// A packet with the segment's payload: as pieces of client memory where the port can gather them.
/// What is sent again is copied where there is a buffer: the client may have the memory back when
/// the bytes are acknowledged, whenever the driver frees the packet.
io::PacketBuf* SegmentOutput::make_packet(uint32_t conn, const tcp::SegmentOut& segment) {
  if (segment.payload_bytes == 0) return output_.alloc();
  if (state_.session(conn).is_local) {
    // The reserve is for what comes in.
    if (state_.accounts.is_reserve(state_.memory.rx_slots_free())) return nullptr;
    return copy_payload(conn, segment);
  }
  if (segment.is_retransmission && !state_.accounts.is_low(state_.memory.rx_slots_free())) {
    if (io::PacketBuf* copy = copy_payload(conn, segment)) return copy;
  }
  io::PacketBuf* packet = output_.alloc();
  if (packet == nullptr || try_gather(conn, segment, *packet)) return packet;
  output_.put_back(packet);
  return copy_payload(conn, segment);
}

/// A packet with the payload copied in: for local delivery, for what is sent again, and for payload
/// in too many pieces.
io::PacketBuf* SegmentOutput::copy_payload(uint32_t conn, const tcp::SegmentOut& segment) {
  io::PacketBuf* packet = state_.memory.alloc_rx();
  if (packet == nullptr) return nullptr;
  BufRef pieces[kGatheredPiecesMax];
  const uint32_t count = state_.sends.gather(state_.session(conn).sends, segment.queue_offset,
                                             segment.payload_bytes, pieces);
  static_assert(kGatheredPiecesMax >= channel::kSendsOutstandingMax);
  LYRE_CHECK(count > 0);  // so there is room for all pieces of a session
  for (const BufRef& piece : std::span(pieces, count)) {
    LYRE_CHECK(piece.length <= packet->tailroom);  // one MSS, and a slot holds a frame of any port
    std::memcpy(packet->data + packet->length, state_.client_memory.bytes_of(piece), piece.length);
    packet->length += piece.length;
    packet->tailroom = static_cast<uint16_t>(packet->tailroom - piece.length);
  }
  state_.session(conn).copied_tx_bytes += packet->length;
  state_.stats.worker->copied_tx_bytes.add(packet->length);
  return packet;
}

}  // namespace lyre::worker
