#pragma once

#include "tools/lyre/perf/stream.h"

namespace lyre::perf {

struct ServerOptions {
  lyre_addr listen;
  bool is_once = false;
  bool is_json = false;
};

/// Serves clients side by side until SIGINT or SIGTERM, or until the first is done. A stranger, or
/// a client that breaks, costs one line on stderr and disturbs nobody.
/// Fails: throws tools::Failure when it cannot listen, when the daemon is gone, or, with is_once,
/// when that client's bytes were wrong.
void run_server(Network& network, const ServerOptions& options);

}  // namespace lyre::perf
