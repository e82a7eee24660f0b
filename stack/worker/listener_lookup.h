#pragma once

#include <cstdint>

#include "stack/base/ip_address.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// The listener that takes a SYN of the 4-tuple, or Listeners::kNone. A listener at any address has
/// no address on ports outside its domain, and accepts no peer outside its domain's networks.
inline uint32_t find_listener(const WorkerState& state, const FourTuple& tuple) {
  const uint32_t found = state.listeners.find(tuple.local);
  if (found == Listeners::kNone) return found;
  const Context& owner = state.contexts[state.listeners[found].context];
  if (owner.attached.domain == nullptr) return found;
  const auto port = state.routes.port_of(tuple.local.address);
  const bool is_allowed = port && owner.may_talk(*port, tuple.local.port, tuple.remote.address);
  return is_allowed ? found : Listeners::kNone;
}

/// Whether a listener of another user than the client's takes a SYN of the 4-tuple. Each worker
/// knows all listeners, because liblyre listens at each.
inline bool is_for_another_user(const WorkerState& state, const FourTuple& tuple,
                                uint32_t context) {
  const uint32_t listener = find_listener(state, tuple);
  return listener != Listeners::kNone &&
         state.accounts.user_of(state.listeners[listener].context) !=
             state.accounts.user_of(context);
}

}  // namespace lyre::worker
