#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "nccl_adapter/limits.h"
#include "nccl_adapter/protocol/frame.h"
#include "nccl_adapter/transport/chunk.h"
#include "nccl_adapter/transport/verbs/registrations.h"

namespace lyre::nccl_adapter {

/// Mode 2 of one queue pair: where the receiver has exposed its receives, and the sender may write.
/// What is exposed stays so until the queue pair is destroyed.
/// Thread: under the instance's lock. Owner: the queue pair, whose device's registrations are
/// borrowed.
class Places {
 public:
  Places(Registrations& registrations, bool is_receiver)
      : registrations_(registrations), is_receiver_(is_receiver) {}

  /// Both sides know mode 2.
  void begin() { are_used_ = true; }
  bool are_used() const { return are_used_; }

  // ---- The sender's ----

  /// The peer has exposed a receive. Fails: false when it may not.
  bool on_place(const FrameHeader& place);
  /// Where the chunk's message is to be written. nullptr: the chunk goes in a frame.
  const FrameHeader* find(const Chunk& chunk) const;
  /// Payload was written to one.
  void note_written() { has_written_ = true; }
  bool has_written() const { return has_written_; }

  // ---- The receiver's ----

  /// The frame that exposes a receive to the peer. None: its memory cannot be exposed.
  std::optional<FrameHeader> expose(uint64_t message, const uint8_t* data, uint64_t bytes,
                                    const Memory* memory);
  /// Receives of messages before this one were exposed, or are not to be.
  uint64_t exposed() const { return exposed_; }
  void set_exposed(uint64_t message) { exposed_ = message; }

 private:
  Registrations& registrations_;
  bool is_receiver_;
  bool are_used_ = false;
  bool has_written_ = false;
  std::array<FrameHeader, kRequestsPerComm> places_{};  ///< of message % size, as the peer said
  uint64_t exposed_ = 0;
};

}  // namespace lyre::nccl_adapter
