#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "stack/base/mac_address.h"
#include "stack/session/session.h"
#include "stack/worker/backoff.h"
#include "stack/worker/packet_output.h"
#include "stack/worker/recent_senders.h"
#include "stack/worker/segment_output.h"
#include "stack/worker/session_lifecycle.h"
#include "stack/worker/turn_limits.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// The turns of sessions to send. Transmission is pulled: a session whose turn it is gives as many
/// segments as TCP allows and its port has room for.
/// Thread: the worker.
class Transmission {
 public:
  struct Parts {
    PacketOutput& output;
    SegmentOutput& segments;
    SessionLifecycle& lifecycle;
  };
  Transmission(WorkerState& state, const Parts& parts) : state_(state), parts_(parts) {}

  /// Returns the packets sent.
  size_t transmit();
  /// True when sessions have something to send now, or will have in the next turn.
  bool has_work() const {
    const TransmitQueue& queue = state_.transmit_queue;
    return queue.is_waking() || !queue.is_round_in_vain();
  }
  /// Schedules an ACK that says nothing new, for one of the sessions that sent payload last.
  void repeat_an_ack();
  /// When sessions are tried again whose ports take nothing, and ports that have unsent packets.
  Nanos next_deadline() const { return backoff_.next_deadline(); }

 private:
  void wake_for_neighbours();
  void note_no_progress();
  void note_progress(size_t sent);
  struct Sent {
    size_t packets = 0;
    uint64_t bytes = 0;
    bool has_retransmission = false;
  };
  Sent transmit_session(uint32_t conn, size_t packets_max);
  size_t packet_room(const session::Session& sender);
  uint32_t payload_limit(uint32_t conn, size_t room) const;
  void note_turn(uint32_t conn, const Sent& sent);
  void note_black_hole(uint32_t conn, const tcp::BlackHole& hole);
  std::optional<MacAddress> neighbour_of(uint32_t conn);
  bool has_lost_router(uint32_t conn) const;
  bool reroute(uint32_t conn);

  WorkerState& state_;
  Parts parts_;
  RecentSenders recent_;
  Backoff backoff_{kTransmitRetryFirst, kTransmitRetryLongest};
  uint32_t neighbours_seen_ = 0;  ///< generation for which sessions were woken
};

}  // namespace lyre::worker
