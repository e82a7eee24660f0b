#pragma once

#include <array>
#include <cstdint>

#include "stack/base/nanos.h"
#include "stack/base/seq_num.h"
#include "stack/session/session.h"
#include "stack/worker/backoff.h"
#include "stack/worker/packet_output.h"
#include "stack/worker/turn_limits.h"
#include "stack/worker/worker.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// What ports hold of the memory of clients, and the waits until they release it. A wait delays
/// what a client is told, never transmission: drivers may free a packet only when others are sent.
/// Each port has a wait of its own. It ends when the port has freed the packet that was waited for,
/// and only then the next one begins anew: with short pauses, and packets to send.
/// Thread: the worker.
class PortHolds {
 public:
  PortHolds(WorkerState& state, PacketOutput& output) : state_(state), output_(output) {}

  /// True while the session's port may read memory that the client would get back: from now on the
  /// port is waited for, and the notifier holds the session. The end of the wait clears the fence.
  bool holds_memory_of(session::Session& waiting);
  /// The peer acknowledged text before `ack`. Where that includes text that still waits for the
  /// port, which nobody can have received, the session gets a fence.
  void on_acked(uint32_t conn, SeqNum ack) {
    if (!state_.ports[state_.session(conn).port].waiting().empty()) [[unlikely]]
      fence_unsent(conn, ack);
  }
  /// True while a port holds a piece of the region, or is still to be given one.
  bool is_held(uint32_t region);
  /// Puts a region that is held aside, and waits for all ports that were given packets by now.
  void hold_back(uint32_t region);
  /// Waits until the port has freed what it holds now. The wait has no limit: note_wait() shows a
  /// port that never frees.
  void wait_for_port(uint8_t port);
  /// Changes when regions that are held back should be checked again.
  uint32_t look() const { return look_; }

  /// Part of each turn: asks the ports that are waited for, and marks the sessions whose wait
  /// ended.
  void advance() {
    if (is_waiting_) advance_waits();
  }
  void end_turn() { reclaimed_ports_ = 0; }
  bool is_waiting() const { return is_waiting_; }
  /// Some waits ended that advance() has not processed.
  bool has_work() const { return has_more_; }
  Nanos next_deadline() const;

 private:
  /// For one port.
  struct Wait {
    uint64_t awaited = 0;         ///< packets, as Port::completed() counts them; 0: no wait
    uint64_t completed = 0;       ///< as it was seen last
    uint64_t region_fence = 0;    ///< packets that it was given when a region was held back last
    uint64_t port_fence = 0;      ///< packets that it had taken at the last wait_for_port()
    uint32_t nudge_packets = 1;   ///< of the next nudge
    uint32_t nudged_packets = 0;  ///< in this wait
    Backoff backoff{kHoldRetryFirst, kHoldRetryLongest};
  };
  void fence_unsent(uint32_t conn, SeqNum ack);
  bool has_unsent_pieces(uint32_t region) const;
  void reclaim(uint8_t port);
  uint64_t first_fence(uint8_t port) const;
  void begin(uint8_t port, uint64_t awaited);
  void advance_waits();
  void advance_wait(uint8_t port);
  void release_sessions(uint8_t port);
  void nudge(uint8_t port);

  WorkerState& state_;
  PacketOutput& output_;
  std::array<Wait, kPortsMax> waits_;
  Backoff region_retry_{kHoldRetryFirst, kHoldRetryLongest};
  uint32_t look_ = 0;
  uint32_t reclaimed_ports_ = 0;  ///< in this turn, a bit each
  bool is_waiting_ = false;       ///< for any port, or with a region held back
  bool has_more_ = false;
};

}  // namespace lyre::worker
