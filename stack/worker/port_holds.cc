#include "stack/worker/port_holds.h"

#include <algorithm>

#include "stack/io/packet_io.h"
#include "stack/worker/port.h"

namespace lyre::worker {

void PortHolds::reclaim() {
  if (has_reclaimed_) return;
  has_reclaimed_ = true;
  for (Port& port : state_.ports) port.reclaim();
}

bool PortHolds::is_held(uint32_t region) const {
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
  if (port.completed() < waiting.fence) reclaim();
  if (port.completed() < waiting.fence) return true;
  waiting.fence = 0;
  on_released();
  return false;
}

void PortHolds::wait() {
  is_waited_for_ = true;
  if (!backoff_.is_stalled()) {
    nudge_packets_ = 1;
    nudged_packets_ = 0;
  }
  if (backoff_.stall(state_.now)) nudge();
}

/// Some drivers free sent packets only when they send others, and some of them many at a time
/// (virtio: any number, mlx5 and gve: 32). They are given announcements of the port's address,
/// which change nothing at those who receive them: twice as many each time, and few in all, for a
/// port that frees nothing by then is not helped by more.
void PortHolds::nudge() {
  const uint32_t count = std::min(nudge_packets_, kNudgePacketsMax - nudged_packets_);
  nudge_packets_ = std::min(2 * nudge_packets_, kNudgePacketsMax / 2);
  nudged_packets_ += count;
  for (uint8_t index = 0; index < state_.ports.size(); ++index) {
    Port& port = state_.ports[index];
    if (port.held() == 0 || !port.waiting().empty()) continue;
    const auto harmless = state_.neighbours.announcement(index);
    for (uint32_t i = 0; harmless && i < count; ++i) output_.send_neighbour(*harmless);
    port.flush();
  }
}

}  // namespace lyre::worker
