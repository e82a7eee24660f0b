#pragma once

#include "tools/lyre/perf/stream.h"

namespace lyre::perf {

struct ServerOptions {
  lyre_addr listen;
  bool is_once = false;
  bool is_json = false;
};

/// Serves clients at the same time until SIGINT or SIGTERM, with is_once until the first is done or
/// fails. A client that fails, or does not speak the protocol, causes one line on stderr; the
/// others go on. Fails: throws tools::Failure when it cannot listen, when the daemon has ended, or,
/// with is_once, when that client failed or its bytes were wrong.
void run_server(Network& network, const ServerOptions& options);

}  // namespace lyre::perf
