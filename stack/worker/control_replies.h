#pragma once

#include "stack/worker/clients/context.h"
#include "stack/worker/inbox.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// What the worker tells the control thread. Thread: the worker; the control thread takes from
/// outbox().
class ControlReplies {
 public:
  explicit ControlReplies(WorkerState& state) : state_(state) {}

  void post(Reply reply);
  /// The client broke the channel's rules. The control thread hangs up on it and then detaches it;
  /// until then nothing that it wrote is read.
  void expel(Context& context, const char* reason);

  Outbox& outbox() { return outbox_; }

 private:
  WorkerState& state_;
  Outbox outbox_;
};

}  // namespace lyre::worker
