#pragma once

#include <cstddef>
#include <cstdint>

#include "stack/worker/control_replies.h"
#include "stack/worker/inbox.h"
#include "stack/worker/received_payload.h"
#include "stack/worker/region_lifecycle.h"
#include "stack/worker/session_lifecycle.h"
#include "stack/worker/stats_writer.h"
#include "stack/worker/submissions.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// Contexts of clients: attached by the control thread, and given up over several turns when it
/// detaches them. As with a kernel's sockets, the end of a process closes its sessions: peers get
/// what it sent, then FIN. Sessions are reset instead when the client broke a rule or the daemon
/// stops, so a FIN means that a process closed the session, or ended.
/// Thread: the worker.
class ContextLifecycle {
 public:
  struct Parts {
    SessionLifecycle& lifecycle;
    ReceivedPayload& payload;
    Submissions& submissions;
    RegionLifecycle& regions;
    ControlReplies& replies;
    StatsWriter& stats_writer;
  };
  ContextLifecycle(WorkerState& state, const Parts& parts) : state_(state), parts_(parts) {}

  void attach(const Command& command);
  void detach(const Command& command);
  /// Goes on with all contexts that are being detached; returns the work done.
  size_t continue_detaching();
  /// This host stood still for so long: contexts wait for acknowledgements for this time more.
  void on_standstill(Nanos stood_still);
  bool are_detaching() const { return detaching_count_ > 0; }
  /// A context is being detached that waits neither for acknowledgements nor for a port.
  bool has_work() const;
  /// When a context stops waiting for acknowledgements.
  Nanos next_deadline() const;

 private:
  size_t give_up_some(uint32_t context);
  size_t take_last_submissions(Context& context);
  size_t give_up_sessions(Context& context);
  static void revoke_loans(Context& context);
  size_t give_up_slots(uint32_t context);
  size_t finish_lingering(Context& context);
  bool is_lingering(const Context& context) const;

  WorkerState& state_;
  Parts parts_;
  uint32_t detaching_count_ = 0;
};

}  // namespace lyre::worker
