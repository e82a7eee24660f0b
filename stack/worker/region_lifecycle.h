#pragma once

#include <cstddef>
#include <cstdint>

#include "stack/worker/clients/client_memory.h"
#include "stack/worker/control_replies.h"
#include "stack/worker/inbox.h"
#include "stack/worker/port_holds.h"
#include "stack/worker/session_lifecycle.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// The memory of clients between the ports, which read it, and the control thread, which maps and
/// unmaps it: memory goes when no port can read it any more.
/// Thread: the worker.
class RegionLifecycle {
 public:
  struct Parts {
    SessionLifecycle& lifecycle;
    PortHolds& holds;
    ControlReplies& replies;
  };
  RegionLifecycle(WorkerState& state, const Parts& parts) : state_(state), parts_(parts) {}

  void add(const Command& command);
  /// The same without an answer. False: the ports cannot be given the memory, or the context is
  /// none that may have any.
  bool try_add(const Command& command);
  void begin_removal(const Command& command);
  /// Goes on with removals; returns the work done.
  size_t finish_removals();
  /// Some region can be looked at now. Those that ports held wait for these.
  bool has_work() const {
    return state_.client_memory.leaving_count() > 0 ||
           state_.client_memory.has_unlooked(parts_.holds.look());
  }
  /// Gives up some of the memory of a context that has no session any more. True: nothing of it is
  /// left.
  bool try_forget_memory(uint32_t context);
  /// Memory of the context was held by a port, and may still be.
  bool waits_for_port(const Context& context) const {
    return context.held_region != ClientMemory::kNone &&
           state_.client_memory.is_held_back(context.held_region);
  }

 private:
  size_t look_at_held_back();
  uint32_t end_senders(ClientMemory::Region& region);
  void forget_region(uint32_t index);
  bool is_held_back(uint32_t context, uint32_t region);
  void remove_from_ports(uint32_t index);

  WorkerState& state_;
  Parts parts_;
};

}  // namespace lyre::worker
