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

/// Runs the plan on every session at once and prints the result.
/// Fails: throws tools::Failure; also when a byte was wrong.
void run_client(Network& network, const ClientOptions& options);

}  // namespace lyre::perf
