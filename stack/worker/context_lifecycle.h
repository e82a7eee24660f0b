#pragma once

#include <cstddef>
#include <cstdint>

#include "stack/worker/control_replies.h"
#include "stack/worker/inbox.h"
#include "stack/worker/received_payload.h"
#include "stack/worker/region_lifecycle.h"
#include "stack/worker/session_lifecycle.h"
#include "stack/worker/submissions.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// Contexts of clients: attached by the control thread, and given up over several turns when it
/// detaches them.
/// Thread: the worker.
class ContextLifecycle {
 public:
  struct Parts {
    SessionLifecycle& lifecycle;
    ReceivedPayload& payload;
    Submissions& submissions;
    RegionLifecycle& regions;
    ControlReplies& replies;
  };
  ContextLifecycle(WorkerState& state, const Parts& parts) : state_(state), parts_(parts) {}

  void attach(const Command& command);
  void detach(uint32_t context);
  /// Goes on with all contexts that are being detached; returns the work done.
  size_t continue_detaching();
  bool are_detaching() const { return detaching_count_ > 0; }

 private:
  size_t give_up_some(uint32_t context);
  size_t give_up_slots(uint32_t context);

  WorkerState& state_;
  Parts parts_;
  uint32_t detaching_count_ = 0;
};

}  // namespace lyre::worker
