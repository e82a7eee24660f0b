#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "stack/base/buf_ref.h"
#include "stack/base/check.h"
#include "stack/base/mac_address.h"
#include "stack/io/packet.h"
#include "stack/ip/output.h"
#include "stack/link/neighbours.h"
#include "stack/session/send_queue.h"
#include "stack/session/session.h"
#include "stack/tcp/engine.h"
#include "stack/tcp/segment.h"
#include "stack/wire/tcp_segment.h"
#include "stack/worker/flow_label.h"
#include "stack/worker/impl.h"
#include "stack/worker/port.h"
#include "stack/worker/tables/transmit_queue.h"
#include "stack/worker/tso_fit.h"

/// The way out of segments: sessions are asked in turn for what they may send, packets are built
/// and queued for their port.
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

/// Transmission is pulled: each session in the list has a turn and gives as many segments as TCP
/// allows and the port has room for. Sessions that are put back in the list meanwhile stand behind
/// `last` and wait for the next turn.
size_t Worker::Impl::transmit() {
  if (neighbours.generation() != neighbours_seen) {
    neighbours_seen = neighbours.generation();
    transmit_queue.begin_waking();
  }
  transmit_queue.wake_some(kWokenPerPollMax);
  size_t sent = 0;
  for (Port& port : ports) {
    port.begin_turn();
    sent += port.flush();
  }
  // Who is scheduled again has its next turn in the next poll.
  uint32_t turns = transmit_queue.size();
  for (; turns > 0 && !transmit_queue.empty() && sent < kTxPacketsPerPollMax; --turns) {
    const uint32_t conn = transmit_queue.take();
    sent += transmit_session(conn, std::min(kSegmentsPerTurnMax, kTxPacketsPerPollMax - sent));
  }
  for (Port& port : ports) port.flush();
  return sent;
}

/// Packets that the session may build now: room where they go, and buffers in stock.
size_t Worker::Impl::packet_room(const session::Session& sender) {
  if (sender.is_local) return loop.room();
  const size_t room = ports[sender.port].session_room();
  if (room == 0) return 0;
  if (tx_stock.empty()) restock();
  // With no buffer at all the session still builds one packet, which fails and is counted.
  return std::min(room, std::max<size_t>(tx_stock.size(), 1));
}

/// Sends up to `budget` packets of the session and puts it back in the list if it has more.
size_t Worker::Impl::transmit_session(uint32_t conn, size_t budget) {
  session::Session& sender = session(conn);
  if (sender.context != session::kNoContext && contexts[sender.context].waits_for_holds) {
    transmit_queue.schedule(conn);
    return 0;
  }
  const auto mac = neighbour_of(conn);
  if (!mac) return 0;
  size_t sent = 0;
  bool has_more = true;
  while (has_more && sent < budget) {
    const size_t room = std::min(packet_room(sender), budget - sent);
    if (room == 0) break;
    const auto segment = engine.poll_transmit(conn, payload_limit(conn, room), now);
    has_more = segment.has_value();
    if (!has_more) break;
    const size_t built = send_segment(conn, *segment, *mac);
    if (built == 0) break;
    sent += built;
  }
  if (has_more) transmit_queue.schedule(conn);
  arm(conn);
  return sent;
}

/// Payload that the engine may hand over at once: what fits `room` packets. A port that cuts by
/// itself takes more, but where its pieces are too many, the worker cuts into that many packets.
uint32_t Worker::Impl::payload_limit(uint32_t conn, size_t room) const {
  const session::Session& sender = sessions[conn];
  const auto packets = static_cast<uint32_t>(room) * engine.segment_payload_bytes(conn);
  const uint32_t cut_max = sender.is_local ? 0 : ports[sender.port].capabilities().tso_bytes_max;
  return std::min(packets, cut_max == 0 ? kSendBytesAtOnceMax : cut_max);
}

/// As many TSO packets as the port needs to take the segment, or single ones for what it cannot
/// gather. Returns the packets it took. Fewer than needed: no buffer, and the rest counts as sent
/// and lost; TCP sends it again.
size_t Worker::Impl::send_segment(uint32_t conn, const tcp::SegmentOut& segment, MacAddress mac) {
  count_out(segment);
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
io::PacketBuf* Worker::Impl::send_part(uint32_t conn, const tcp::SegmentOut& part, MacAddress mac,
                                       const io::PacketBuf* model) {
  io::PacketBuf* packet = make_packet(conn, part);
  if (packet == nullptr) {
    drop(Drop::kTxNoBuffer);
    return nullptr;
  }
  finish_packet(conn, part, *packet, mac, model);
  return packet;
}

/// Writes the headers and queues the packet where it goes.
void Worker::Impl::finish_packet(uint32_t conn, const tcp::SegmentOut& segment,
                                 io::PacketBuf& packet, MacAddress mac,
                                 const io::PacketBuf* model) {
  session::Session& sender = session(conn);
  if (segment.is_retransmission) note_retransmission(sender, packet);
  if (model != nullptr) {
    ip::repeat_tcp_packet(packet, *model, segment.seq, ++ip_id);
  } else {
    write_headers(packet, engine.tuple(conn), segment, sender.port, mac, sender.flow_label);
  }
  if (sender.is_local) {
    deliver_locally(&packet);
  } else {
    ports[sender.port].queue(&packet);
  }
}

/// Records which memory a port may still read after the ACK.
void Worker::Impl::note_retransmission(session::Session& sender, const io::PacketBuf& packet) {
  sender.was_retransmitted = true;
  for (uint32_t i = 0; i < packet.piece_count; ++i) {
    const uint32_t region = packet.pieces[i].region;
    if (region < kContextsMax || region == sender.retransmitted_region) continue;
    sender.retransmitted_region =
        sender.retransmitted_region == session::kNoIndex ? region : session::kManyRegions;
  }
}

void Worker::Impl::restock() {
  io::PacketBuf* fresh[kTxStockPackets];
  size_t count = memory.alloc_tx(fresh);
  if (count == 0) {
    for (Port& port : ports) port.reclaim();
    count = memory.alloc_tx(fresh);
  }
  for (size_t i = count; i > 0; --i) tx_stock.push(fresh[i - 1]);
}

io::PacketBuf* Worker::Impl::alloc_tx() {
  if (tx_stock.empty()) restock();
  if (tx_stock.empty()) return nullptr;
  io::PacketBuf* packet = tx_stock.back();
  tx_stock.pop_back();
  return packet;
}

/// A packet for a port that cuts, with as much of `part` as fits: part.payload_bytes becomes that.
/// nullptr where that is not more than one packet on the wire, and the worker must cut.
io::PacketBuf* Worker::Impl::try_make_uncut(uint32_t conn, tcp::SegmentOut& part) {
  session::Session& sender = session(conn);
  if (sender.is_local || part.payload_bytes <= part.mss_bytes) return nullptr;
  if (part.mss_bytes < kTsoMssMin) return nullptr;
  const io::IoCapabilities& port = ports[sender.port].capabilities();
  const auto in_whole_cuts = [&](uint32_t bytes) { return bytes - bytes % part.mss_bytes; };
  uint32_t bytes = part.payload_bytes;
  if (bytes > port.tso_bytes_max) bytes = in_whole_cuts(port.tso_bytes_max);
  if (bytes <= part.mss_bytes) return nullptr;
  io::PacketBuf* packet = alloc_tx();
  if (packet == nullptr) return nullptr;
  const uint32_t pieces_max = std::min(port.tx_pieces_max, io::kTxPiecesMax);
  const uint32_t count =
      sends.gather_some(sender.sends, part.queue_offset, bytes, {packet->pieces, pieces_max});
  uint32_t fits =
      tso_payload_that_fits({packet->pieces, count}, region_segment_bytes.data(), part.mss_bytes,
                            {port.tso_segments_max, port.cut_segments_max});
  if (fits < part.payload_bytes) fits = in_whole_cuts(fits);
  if (fits <= part.mss_bytes) {
    tx_stock.push(packet);
    return nullptr;
  }
  packet->piece_count = static_cast<uint8_t>(shorten_pieces({packet->pieces, count}, fits));
  packet->tso_bytes = part.mss_bytes;
  part.payload_bytes = fits;
  return packet;
}

/// Attaches the segment's payload to the packet as pieces; false where the port cannot gather so
/// many.
bool Worker::Impl::try_gather(uint32_t conn, const tcp::SegmentOut& segment,
                              io::PacketBuf& packet) {
  session::Session& sender = session(conn);
  const uint32_t limit =
      std::min(ports[sender.port].capabilities().tx_pieces_max, io::kTxPiecesMax);
  const uint32_t count = sends.gather(sender.sends, segment.queue_offset, segment.payload_bytes,
                                      {packet.pieces, limit});
  packet.piece_count = static_cast<uint8_t>(count);
  return count > 0;
}

/// A packet with the segment's payload: as pieces of client memory where the port can gather them.
io::PacketBuf* Worker::Impl::make_packet(uint32_t conn, const tcp::SegmentOut& segment) {
  if (segment.payload_bytes == 0) return alloc_tx();
  if (session(conn).is_local) return copy_payload(conn, segment);
  io::PacketBuf* packet = alloc_tx();
  if (packet == nullptr || try_gather(conn, segment, *packet)) return packet;
  tx_stock.push(packet);
  return copy_payload(conn, segment);
}

/// A packet with the payload copied in: for local delivery and for payload in too many pieces.
io::PacketBuf* Worker::Impl::copy_payload(uint32_t conn, const tcp::SegmentOut& segment) {
  io::PacketBuf* packet = memory.alloc_rx();
  if (packet == nullptr) return nullptr;
  BufRef pieces[kGatheredPiecesMax];
  const uint32_t count =
      sends.gather(session(conn).sends, segment.queue_offset, segment.payload_bytes, pieces);
  static_assert(kGatheredPiecesMax >= channel::kSendsOutstandingMax);
  LYRE_CHECK(count > 0);  // so there is room for all pieces of a session
  for (const BufRef& piece : std::span(pieces, count)) {
    LYRE_CHECK(piece.length <= packet->tailroom);  // one MSS, and a slot holds a frame of any port
    std::memcpy(packet->data + packet->length, client_memory.bytes_of(piece), piece.length);
    packet->length += piece.length;
    packet->tailroom = static_cast<uint16_t>(packet->tailroom - piece.length);
  }
  session(conn).copied_tx_bytes += packet->length;
  stats.worker->copied_tx_bytes.add(packet->length);
  return packet;
}

void Worker::Impl::write_headers(io::PacketBuf& packet, const FourTuple& tuple,
                                 const tcp::SegmentOut& segment, uint32_t port, MacAddress mac,
                                 uint32_t flow_label) {
  ip::TcpOutput output{
      .frame = {.source = ports[port].mac(), .destination = mac},
      .tuple = tuple,
      .header = {.seq = segment.seq,
                 .ack = segment.ack,
                 .flags = segment.flags,
                 .window = segment.window,
                 .options = segment.options},
      .payload_bytes = segment.payload_bytes,
      .ip_id = ++ip_id,
      .flow_label = flow_label,
      .ecn = segment.ecn,
  };
  ip::write_tcp_packet(packet, output);
}

void Worker::Impl::count_out(const tcp::SegmentOut& segment) {
  const uint32_t cuts = segment.payload_bytes <= segment.mss_bytes
                            ? 1
                            : (segment.payload_bytes + segment.mss_bytes - 1) / segment.mss_bytes;
  stats.worker->tcp_segments_out.add(cuts);
  auto& payload = segment.is_retransmission ? stats.worker->tcp_payload_retransmitted
                                            : stats.worker->tcp_payload_out;
  if (segment.payload_bytes > 0) payload.add(segment.payload_bytes);
  if (segment.flags.has(wire::TcpFlags::kRst)) stats.worker->tcp_resets_out.add(1);
}

/// Sends a segment outside of any session's turn: a RST, or the answer to a SYN by cookie.
/// `mac`: of the neighbour to send to, where it is known without resolution.
void Worker::Impl::send_alone(const FourTuple& tuple, const tcp::SegmentOut& segment,
                              std::optional<MacAddress> mac) {
  const auto route = routes.lookup_from(tuple.local.address, tuple.remote.address);
  if (!route) return drop(Drop::kTxNoRoute);
  if (route->is_local) mac = ports[route->port].mac();
  if (!mac) {
    const link::Resolved resolved = neighbours.resolve(route->port, route->next_hop, now);
    if (resolved.answer != link::Answer::kKnown) return drop(Drop::kTxUnresolved);
    mac = resolved.mac;
  }
  io::PacketBuf* packet = route->is_local ? memory.alloc_rx() : alloc_tx();
  if (packet == nullptr) return drop(Drop::kTxNoBuffer);
  write_headers(*packet, tuple, segment, route->port, *mac, flow_label_of(tuple, flow_label_key));
  count_out(segment);
  if (route->is_local) return deliver_locally(packet);
  send_packet(route->port, packet);
}

void Worker::Impl::send_packet(uint32_t port, io::PacketBuf* packet) {
  if (ports[port].try_send(packet)) return;
  memory.release({&packet, 1});
  drop(Drop::kTxNoBuffer);
}

/// The peer is this host: the packet is received in the next turn. Its checksums were not computed
/// and need not be: the bytes do not leave this memory.
void Worker::Impl::deliver_locally(io::PacketBuf* packet) {
  stats.worker->loopback_packets.add(1);
  packet->ip_checksum = packet->l4_checksum = io::ChecksumVerdict::kGood;
  packet->wants_checksums = false;
  if (loop.try_push(packet)) return;
  memory.release({&packet, 1});
  drop(Drop::kTxNoBuffer);
}

}  // namespace lyre::worker
