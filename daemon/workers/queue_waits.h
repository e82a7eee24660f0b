#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "stack/io/packet_io.h"

namespace lyre {

/// The receive queues of a worker while it sleeps.
/// Thread: the worker's. Owner: borrows the queues.
class QueueWaits {
 public:
  explicit QueueWaits(std::vector<io::PacketIo*> queues)
      : queues_(std::move(queues)), is_watched_(queues_.size(), true) {}

  /// Whether the worker waits for the queue's descriptor.
  void set_watched(uint32_t queue, bool is_watched) { is_watched_[queue] = is_watched; }
  /// Arms all queues. kArmed: all of them announce packets. kPackets: one of them has some.
  io::Arming arm() {
    auto all = io::Arming::kArmed;
    for (size_t i = 0; i < queues_.size(); ++i) {
      const io::Arming one = queues_[i]->arm();
      if (one == io::Arming::kPackets) return finish(one);
      if (one == io::Arming::kUnsure || !is_watched_[i]) all = io::Arming::kUnsure;
    }
    return finish(all);
  }
  /// The descriptor of this queue was readable.
  void on_event(uint32_t queue) { queues_[queue]->disarm(io::Woken::kByPackets); }
  /// The worker has work. `woken`: what ended its last sleep. It says nothing of packets for which
  /// the worker did not sleep.
  void disarm(io::Woken woken) {
    if (!is_armed_) return;
    is_armed_ = false;
    for (io::PacketIo* queue : queues_) queue->disarm(may_sleep_ ? woken : io::Woken::kByOthers);
  }

 private:
  io::Arming finish(io::Arming arming) {
    is_armed_ = true;
    may_sleep_ = arming != io::Arming::kPackets;
    return arming;
  }

  std::vector<io::PacketIo*> queues_;
  std::vector<bool> is_watched_;  ///< by queue
  bool is_armed_ = false;         ///< one of them, perhaps
  bool may_sleep_ = false;        ///< the last arm() found no packets
};

}  // namespace lyre
