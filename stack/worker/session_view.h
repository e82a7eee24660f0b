#pragma once

#include <cstdint>

#include "stack/channel/stats.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// The connection as tools see it. REQUIRES: it is open in the engine.
channel::SessionView view_of(const WorkerState& state, uint32_t conn);
/// As tools see ssthresh. UINT32_MAX: none yet, for which TCP has another value.
uint32_t shown_ssthresh_bytes(const tcp::ConnectionInfo& info);
/// Shows the context as the owner; kNoContext: none.
void show_owner(const WorkerState& state, channel::SessionView& view, uint32_t context);

}  // namespace lyre::worker
