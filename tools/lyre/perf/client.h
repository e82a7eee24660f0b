#pragma once

#include <cstdint>

#include "tools/lyre/perf/protocol.h"
#include "tools/lyre/perf/stream.h"

namespace lyre::perf {

struct ClientOptions {
  lyre_addr server;
  Plan plan;
  uint32_t sessions = 1;
  bool is_json = false;
};

/// How long to wait for events after a step at `stepped_ns` that found no work, when the next one
/// is due at `due_ns` (0: with an event): in whole milliseconds, rounded up, at most kWaitMs.
int wait_ms(int64_t due_ns, int64_t stepped_ns);

/// Runs the plan on all sessions at the same time and prints the result.
/// Fails: throws tools::Failure, also after a transfer with a wrong byte.
void run_client(Network& network, const ClientOptions& options);

}  // namespace lyre::perf
