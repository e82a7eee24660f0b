#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stack/base/nanos.h"
#include "stack/worker/clients/context.h"
#include "stack/worker/control_replies.h"
#include "stack/worker/received_payload.h"
#include "stack/worker/session_lifecycle.h"
#include "stack/worker/turn_limits.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// Takes receive slots back.
/// A client that reached its limit loses what its sessions hold out of order, which peers send
/// again (RFC 2018 8).
/// When little of the pool's reserve is left, or a part of it was missing for kGreedGrace, and
/// until it is whole, a client loses that first, then its unread sessions, which are reset: the one
/// with most slots, of the user with most slots for its weight. After kGreedGrace the client that
/// is found so by what each held throughout is disconnected when it has no unread session left.
/// Nothing is taken from clients that are safe (ReceiveAccounts::is_safe()).
/// The peer of a session that refused text was told a window of zero. When slots are free again, an
/// ACK tells it of the window. Thread: the worker.
class ReceivePressure {
 public:
  struct Parts {
    SessionLifecycle& lifecycle;
    ReceivedPayload& payload;
    ControlReplies& replies;
  };
  ReceivePressure(WorkerState& state, const Parts& parts)
      : state_(state), parts_(parts), of_user_(state.accounts.user_count()) {}

  /// The pool is less than half free. Each turn then checks whether it is short.
  void watch() { is_watching_ = true; }
  /// The client reached its limit. Its sessions are looked at in this turn and the next ones, and
  /// not again for kPressurePause.
  void on_limit(uint32_t context);
  /// A segment of the session was refused. From now on the session is looked at every
  /// kPressurePause until it may have a slot.
  void on_refused(uint32_t conn) {
    if (state_.refused.empty()) wake_next_at_ = state_.now + kPressurePause;
    state_.refused.add(conn);
  }
  /// The session has few enough slots to get one more beyond its client's share, for bytes for
  /// which its reader waits.
  bool has_few_unread(uint32_t conn) const;
  /// Part of each turn; returns the work done.
  size_t relieve() {
    const size_t taken_back = is_watching_ ? take_back_some() : 0;
    const bool may_wake = !state_.refused.empty() && state_.now >= wake_next_at_;
    return taken_back + (may_wake ? wake_refused() : 0);
  }
  /// This host stood still at once for so long: clients could return nothing in that time.
  void on_pause(Nanos paused);
  /// When there is more to take back, or a refused session to look at; kNever where nothing is
  /// short.
  Nanos next_deadline() const {
    return earlier(is_short_ ? next_at_ : short_at_,
                   state_.refused.empty() ? kNever : wake_next_at_);
  }

 private:
  size_t take_back_some();
  void look_at(uint32_t slots_free);
  void begin_shortage();
  size_t prune_some();
  void begin_grace();
  size_t relieve_reserve();
  size_t reset_unread(Context& context);
  void note_kept();
  uint32_t greediest();
  template <typename Slots>
  void add_up_users(Slots slots);
  template <typename Slots>
  uint32_t attached_with_most(Slots slots);
  uint32_t rotate(Context& context);
  size_t wake_refused();
  bool may_have_slot(uint32_t conn, uint32_t slots_free) const;

  WorkerState& state_;
  Parts parts_;
  std::vector<uint32_t> of_user_;  ///< what attached_with_most() counts of each user
  uint32_t pruned_context_ = 0;
  uint32_t sessions_to_prune_ = 0;  ///< of that context, at the front of its list
  Nanos prune_next_at_;
  bool is_watching_ = false;
  Nanos short_at_ = kNever;  ///< when a part of the reserve has been missing for kGreedGrace
  bool is_short_ = false;    ///< until the reserve is whole
  Nanos short_since_;
  Nanos next_at_;
  uint32_t victim_ = 0;      ///< the context that loses unread sessions
  uint32_t read_count_ = 0;  ///< its sessions in a row that had nothing unread
  Nanos wake_next_at_;
};

}  // namespace lyre::worker
