#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tools/nccl_emulator/connection.h"
#include "tools/nccl_emulator/operation.h"

namespace lyre::nccl_emulator {

/// The GPU's part of an all-reduce, done by a processor: it waits for a received slot, reduces it
/// with the operation's data, and writes the result to a slot that will be sent. It shares only the
/// StepCounters and the slots with the progress thread.
/// Thread: one at a time; it need not be the progress thread.
class Device {
 public:
  explicit Device(std::span<Channel* const> channels) : channels_(channels) {}

  /// Borrows `operation` until is_done().
  void start(Operation* operation, int slice_steps);

  /// Runs the slices that are ready, at most one a channel. Returns their number.
  /// Fails: throws Failure when a message is not as long as its slice.
  size_t poll();
  bool is_done() const;

 private:
  /// Steps are those of the connections, which go on from one operation to the next.
  struct Cursor {
    size_t next;
    uint64_t first_sent;
    uint64_t sent;
    uint64_t first_received;
    uint64_t received;
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

}  // namespace lyre::nccl_emulator
