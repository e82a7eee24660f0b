#include "stack/worker/port_holds.h"

#include <algorithm>

#include "stack/io/packet_io.h"
#include "stack/wire/bytes.h"
#include "stack/worker/port.h"

namespace lyre::worker {

/// Once in a turn.
void PortHolds::reclaim(uint8_t port) {
  if ((reclaimed_ports_ & 1u << port) != 0) return;
  reclaimed_ports_ |= 1u << port;
  state_.ports[port].reclaim();
}

bool PortHolds::is_held(uint32_t region) {
  for (uint8_t port = 0; port < state_.ports.size(); ++port) reclaim(port);
  return state_.memory.region_holds(region) > 0 || has_unsent_pieces(region);
}

bool PortHolds::has_unsent_pieces(uint32_t region) const {
  for (const Port& port : state_.ports) {
    for (const io::PacketBuf* packet : port.waiting()) {
      for (uint32_t piece = 0; piece < packet->piece_count; ++piece) {
        if (packet->pieces[piece].region == region) return true;
      }
    }
  }
  return false;
}

bool PortHolds::holds_memory_of(session::Session& waiting) {
  if (waiting.fence == 0) return false;
  const Port& port = state_.ports[waiting.port];
  if (port.completed() < waiting.fence) reclaim(waiting.port);
  if (port.completed() < waiting.fence) {
    if (waits_[waiting.port].awaited == 0) begin(waiting.port, waiting.fence);
    return true;
  }
  waiting.fence = 0;
  return false;
}

/// Segments of other peers with the same two ports make the wait longer than it must be.
void PortHolds::fence_unsent(uint32_t conn, SeqNum ack) {
  session::Session& acked = state_.session(conn);
  const FourTuple& tuple = state_.engine.tuple(conn);
  const Port& port = state_.ports[acked.port];
  const bool reads_acked_text = std::ranges::any_of(port.waiting(), [&](const io::PacketBuf* sent) {
    if (sent->piece_count == 0) return false;
    const uint8_t* tcp = sent->data + io::kEthernetHeaderBytes + sent->l3_bytes;
    return wire::read_be16(tcp) == tuple.local.port &&
           wire::read_be16(tcp + 2) == tuple.remote.port &&
           SeqNum(wire::read_be32(tcp + 4)).before(ack);
  });
  if (!reads_acked_text) return;
  acked.fence = port.queued();
  if (acked.waits_for_port) state_.notifier.mark(conn);  // it waits behind the others now
}

/// The last piece of the region is in one of the packets that the ports have been given by now.
void PortHolds::hold_back(uint32_t region) {
  state_.client_memory.hold_back(region, look_);
  is_waiting_ = true;
  if (region_retry_.stall(state_.now)) ++look_;
  for (uint8_t index = 0; index < state_.ports.size(); ++index) {
    Wait& wait = waits_[index];
    wait.region_fence = state_.ports[index].queued();
    const bool is_complete = state_.ports[index].completed() >= wait.region_fence;
    if (!is_complete && wait.awaited == 0) begin(index, wait.region_fence);
  }
}

void PortHolds::wait_for_port(uint8_t index) {
  reclaim(index);
  const Port& port = state_.ports[index];
  if (port.held() == 0) return;
  Wait& wait = waits_[index];
  wait.port_fence = port.completed() + port.held();
  if (wait.awaited == 0) begin(index, wait.port_fence);
}

void PortHolds::begin(uint8_t port, uint64_t awaited) {
  Wait& wait = waits_[port];
  wait.awaited = awaited;
  wait.completed = state_.ports[port].completed();
  wait.nudge_packets = 1;
  wait.nudged_packets = 0;
  wait.backoff.reset();
  wait.backoff.stall(state_.now);
  is_waiting_ = true;
}

/// The first packet that is waited for and not freed; 0: there is none.
uint64_t PortHolds::first_fence(uint8_t port) const {
  const uint64_t completed = state_.ports[port].completed();
  uint64_t fence = UINT64_MAX;
  const uint32_t first = state_.notifier.first_held_by(port);
  if (first != HeldSessions::kNone) fence = state_.sessions[first].fence;
  const auto include = [&](uint64_t other) {
    if (completed < other) fence = std::min(fence, other);
  };
  if (state_.client_memory.held_back_count() > 0) include(waits_[port].region_fence);
  include(waits_[port].port_fence);
  return fence == UINT64_MAX ? 0 : fence;
}

void PortHolds::advance_waits() {
  is_waiting_ = has_more_ = false;
  for (uint8_t port = 0; port < state_.ports.size(); ++port) {
    if (waits_[port].awaited != 0) advance_wait(port);
  }
  if (state_.client_memory.held_back_count() == 0) return region_retry_.reset();
  is_waiting_ = true;
  if (region_retry_.stall(state_.now)) ++look_;
}

void PortHolds::advance_wait(uint8_t index) {
  Wait& wait = waits_[index];
  Port& port = state_.ports[index];
  reclaim(index);
  if (port.completed() < wait.awaited) {
    if (wait.backoff.stall(state_.now)) nudge(index);
    if (port.held() > 0) port.note_wait();
  }
  if (port.completed() != wait.completed) ++look_;
  wait.completed = port.completed();
  release_sessions(index);
  const uint64_t next = first_fence(index);
  if (next == 0) {
    wait.awaited = 0;
  } else if (wait.completed >= wait.awaited) {
    begin(index, next);
  }
  is_waiting_ |= next != 0;
}

/// The notifier tells them in this turn.
void PortHolds::release_sessions(uint8_t port) {
  const uint64_t completed = waits_[port].completed;
  for (uint32_t count = 0;; ++count) {
    const uint32_t first = state_.notifier.first_held_by(port);
    if (first == HeldSessions::kNone || state_.sessions[first].fence > completed) return;
    if (count == kReleasedPerPollMax) break;
    state_.notifier.mark(first);
  }
  has_more_ = true;
}

Nanos PortHolds::next_deadline() const {
  if (!is_waiting_) return kNever;
  Nanos deadline = region_retry_.next_deadline();
  for (const Wait& wait : waits_) {
    if (wait.awaited != 0) deadline = earlier(deadline, wait.backoff.next_deadline());
  }
  return deadline;
}

/// Some drivers free sent packets only when they send others (igb: when it uses their descriptors
/// again), and some of them many at a time (virtio: any number, mlx5: 32, gve: once 96 descriptors
/// are in use). They are given announcements of the port's address, which change nothing at those
/// who receive them: twice as many each time, and few in all. A port that frees nothing by then
/// would free nothing after more of them.
void PortHolds::nudge(uint8_t index) {
  Wait& wait = waits_[index];
  const uint32_t count = std::min(wait.nudge_packets, kNudgePacketsMax - wait.nudged_packets);
  wait.nudge_packets = std::min(2 * wait.nudge_packets, kNudgePacketsMax / 2);
  Port& port = state_.ports[index];
  if (port.held() == 0 || !port.waiting().empty()) return;
  wait.nudged_packets += count;
  const auto harmless = state_.neighbours.announcement(index);
  for (uint32_t i = 0; harmless && i < count; ++i) {
    static_cast<void>(output_.send_neighbour(*harmless));
  }
  port.flush();
}

}  // namespace lyre::worker
