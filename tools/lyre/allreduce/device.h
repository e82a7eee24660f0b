#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tools/lyre/allreduce/connection.h"
#include "tools/lyre/allreduce/operation.h"

namespace lyre::allreduce {

/// The GPU's part of an all-reduce, done by a processor: waits for a received slot, reduces it with
/// the gradients, writes the result to a slot to be sent. Meets the proxy only in StepCounters.
/// Thread: one at a time; it need not be the proxy's.
class Device {
 public:
  explicit Device(std::span<Channel* const> channels) : channels_(channels) {}

  void start(Operation* operation, int slice_steps);

  /// Runs the slices that are ready, at most one a channel. Returns how many.
  /// Fails: throws Failure when a message has another length or content than the ring gives it.
  size_t poll();
  bool is_done() const;

 private:
  struct Cursor {
    size_t next = 0;
    uint64_t sent = 0;
    uint64_t received = 0;
  };

  bool is_ready(const Channel& channel, const Cursor& cursor, const Slice& slice) const;
  void run_slice(Channel& channel, Cursor& cursor, const Slice& slice);
  const uint8_t* received_slot(const Channel& channel, const Cursor& cursor) const;
  uint32_t recv_flag(const Cursor& cursor) const;
  void check_length(const Channel& channel, const Cursor& cursor, const Slice& slice) const;

  std::span<Channel* const> channels_;
  std::vector<Cursor> cursors_;
  Operation* operation_ = nullptr;
  SlotPlan plan_{};
};

}  // namespace lyre::allreduce
