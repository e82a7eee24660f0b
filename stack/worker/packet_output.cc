#include "stack/worker/packet_output.h"

#include "stack/io/packet_io.h"
#include "stack/ip/output.h"
#include "stack/wire/tcp_segment.h"
#include "stack/worker/flow_label.h"
#include "stack/worker/port.h"
#include "stack/worker/turn_limits.h"

namespace lyre::worker {

void PacketOutput::restock() {
  if (stock_.try_refill()) return;
  for (Port& port : state_.ports) port.reclaim();
  if (stock_.try_refill()) return;
  for (Port& port : state_.ports) {
    if (port.held() >= kNudgePacketsMax) port.note_wait();  // any driver frees some of so many
  }
}

io::PacketBuf* PacketOutput::alloc() {
  if (stock_.size() == 0) restock();
  return stock_.try_take();
}

size_t PacketOutput::ready() {
  if (stock_.size() == 0) restock();
  return stock_.size();
}

std::span<io::PacketBuf* const> PacketOutput::take_local() {
  taken_ = loop_;
  loop_.clear();
  return {taken_.begin(), taken_.size()};
}

void PacketOutput::send(uint32_t port, io::PacketBuf* packet) {
  if (state_.ports[port].try_send(packet)) return;
  state_.memory.release({&packet, 1});
  state_.drop(Drop::kTxNoBuffer);
}

bool PacketOutput::send_neighbour(const link::NeighbourOut& out) {
  io::PacketBuf* packet = alloc();
  if (packet == nullptr) {
    state_.drop(Drop::kTxNoBuffer);
    return false;
  }
  link::write_neighbour_frame(*packet, state_.ports[out.port].mac(), out);
  send(out.port, packet);
  return true;
}

/// Checksums were not computed and need not be: the bytes do not leave this memory.
void PacketOutput::deliver_locally(io::PacketBuf* packet) {
  state_.stats.worker->loopback_packets.add(1);
  packet->ip_checksum = packet->l4_checksum = io::ChecksumVerdict::kGood;
  packet->wants_checksums = false;
  if (loop_.try_push(packet)) return;
  state_.memory.release({&packet, 1});
  state_.drop(Drop::kTxNoBuffer);
}

void PacketOutput::write_headers(io::PacketBuf& packet, const FourTuple& tuple,
                                 const tcp::SegmentOut& segment, uint32_t port, MacAddress mac,
                                 const IpFields& ip) {
  ip::TcpOutput output{
      .frame = {.source = state_.ports[port].mac(), .destination = mac},
      .tuple = tuple,
      .header = {.seq = segment.seq,
                 .ack = segment.ack,
                 .flags = segment.flags,
                 .window = segment.window,
                 .options = segment.options},
      .payload_bytes = segment.payload_bytes,
      .ip_id = next_ip_id(),
      .flow_label = ip.flow_label,
      .marking = ip.marking,
      .ecn = segment.ecn,
  };
  ip::write_tcp_packet(packet, output);
}

void PacketOutput::count(const tcp::SegmentOut& segment) {
  const uint32_t cuts = segment.payload_bytes <= segment.mss_bytes
                            ? 1
                            : (segment.payload_bytes + segment.mss_bytes - 1) / segment.mss_bytes;
  state_.stats.worker->tcp_segments_out.add(cuts);
  auto& payload = segment.is_retransmission ? state_.stats.worker->tcp_payload_retransmitted
                                            : state_.stats.worker->tcp_payload_out;
  if (segment.payload_bytes > 0) payload.add(segment.payload_bytes);
  if (segment.flags.has(wire::TcpFlags::kRst)) state_.stats.worker->tcp_resets_out.add(1);
}

void PacketOutput::send_alone(const FourTuple& tuple, const tcp::SegmentOut& segment,
                              std::optional<MacAddress> mac) {
  const auto route = state_.routes.lookup_from(tuple.local.address, tuple.remote.address);
  if (!route) return state_.drop(Drop::kTxNoRoute);
  if (route->is_local) mac = state_.ports[route->port].mac();
  if (!mac) {
    const link::Resolved resolved =
        state_.neighbours.resolve(route->port, route->next_hop, state_.now, tuple.local.address);
    if (resolved.answer != link::Answer::kKnown) return state_.drop(Drop::kTxUnresolved);
    mac = resolved.mac;
  }
  io::PacketBuf* packet = route->is_local ? state_.memory.alloc_rx() : alloc();
  if (packet == nullptr) return state_.drop(Drop::kTxNoBuffer);
  write_headers(*packet, tuple, segment, route->port, *mac,
                {.flow_label = flow_label_of(tuple, state_.flow_label_key),
                 .marking = state_.ports[route->port].marking()});
  count(segment);
  if (route->is_local) return deliver_locally(packet);
  send(route->port, packet);
}

}  // namespace lyre::worker
