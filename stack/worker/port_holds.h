#pragma once

#include <cstdint>

#include "stack/base/nanos.h"
#include "stack/session/session.h"
#include "stack/worker/backoff.h"
#include "stack/worker/packet_output.h"
#include "stack/worker/turn_limits.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// What ports hold of the memory of clients, and the waits until they let go of it. A wait delays
/// what a client is told, never transmission: drivers may free a packet only when others are sent.
/// Thread: the worker.
class PortHolds {
 public:
  PortHolds(WorkerState& state, PacketOutput& output) : state_(state), output_(output) {}

  /// Lets all ports return what they have finished sending; once in a turn.
  void reclaim();
  /// True while a port holds a piece of the region, or is still to be given one.
  bool is_held(uint32_t region) const;
  /// True while the session's port may read memory that the client would get back. The end of the
  /// wait clears the session's fence.
  bool holds_memory_of(session::Session& waiting);

  /// Something waits for the ports in this turn. A wait that lasts gives them packets to send.
  void wait();
  /// Something that was waited for is held no more.
  void on_released() { backoff_.reset(); }
  void end_turn() {
    if (!is_waited_for_) backoff_.reset();
    is_waited_for_ = has_reclaimed_ = false;
  }
  bool is_waiting() const { return backoff_.is_stalled(); }
  Nanos next_deadline() const { return backoff_.next_deadline(); }

 private:
  bool has_unsent_pieces(uint32_t region) const;
  void nudge();

  WorkerState& state_;
  PacketOutput& output_;
  Backoff backoff_{kHoldRetryFirst, kHoldRetryLongest};
  bool has_reclaimed_ = false;   ///< in this turn
  bool is_waited_for_ = false;   ///< in this turn
  uint32_t nudge_packets_ = 1;   ///< of the next nudge
  uint32_t nudged_packets_ = 0;  ///< in this wait
};

}  // namespace lyre::worker
