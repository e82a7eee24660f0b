#pragma once

#include <cstdint>
#include <vector>

#include "stack/channel/capture.h"

namespace lyre::tools {

/// The packets of all rings of a capture, by time as far as they are there.
/// Owner: borrows the rings. Thread: one.
class PacketStream {
 public:
  /// `rings`: one for each worker. `clock_step_ns`: the wall clock minus the daemon's, by which
  /// workers note the times of packets.
  PacketStream(channel::CaptureRing* rings, uint32_t count, int64_t clock_step_ns)
      : clock_step_ns_(clock_step_ns) {
    for (uint32_t i = 0; i < count; ++i) ends_.push_back({channel::CaptureConsumer(rings[i]), {}});
  }

  /// The oldest packet that is there, with its time by the wall clock. Valid until the next call;
  /// nullptr: there is none.
  const channel::CapturedPacket* take() {
    if (taken_ != nullptr) taken_->has_next = false;
    taken_ = nullptr;
    for (End& end : ends_) {
      if (!end.has_next) end.has_next = end.consumer.try_take(end.next);
      if (!end.has_next) continue;
      if (taken_ == nullptr || end.next.record.unix_ns < taken_->next.record.unix_ns) taken_ = &end;
    }
    if (taken_ == nullptr) return nullptr;
    taken_->next.record.unix_ns += clock_step_ns_;
    return &taken_->next;
  }
  /// Packets for which the rings had no room.
  uint64_t dropped() const {
    uint64_t sum = 0;
    for (const End& end : ends_) sum += end.consumer.dropped();
    return sum;
  }
  bool is_broken() const {
    for (const End& end : ends_) {
      if (end.consumer.is_broken()) return true;
    }
    return false;
  }

 private:
  struct End {
    channel::CaptureConsumer consumer;
    channel::CapturedPacket next;
    bool has_next = false;
  };
  const int64_t clock_step_ns_;
  std::vector<End> ends_;
  End* taken_ = nullptr;
};

}  // namespace lyre::tools
