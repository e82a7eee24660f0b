#pragma once

#include <cstdint>
#include <optional>

#include "stack/tcp/engine.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// Received payload between the engine and its readers: one packet, or a chain of packets whose
/// segments were merged. The engine names a chain by its first slot and gives it back whole;
/// sessions take it packet by packet.
/// Thread: the worker.
class ReceivedPayload {
 public:
  explicit ReceivedPayload(WorkerState& state) : state_(state) {}

  void release_slot(uint32_t slot);
  /// Releases the packets of a chain from `slot` on; returns how many there were.
  uint32_t release_chain(uint32_t slot);
  /// The next in-order bytes, never of more than one packet. Empty: nothing more to read.
  /// Owner: the packet passes to the caller; its charge stays until on_app_release().
  std::optional<PayloadSlice> take_slice(uint32_t conn);
  /// Releases what the session could read.
  void discard(uint32_t conn);
  /// Releases everything that is held for a connection that is over.
  void release_all(uint32_t conn);

 private:
  void return_trimmed(uint32_t conn, uint32_t packet_count);

  WorkerState& state_;
};

}  // namespace lyre::worker
