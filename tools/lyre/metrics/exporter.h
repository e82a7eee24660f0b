#pragma once

#include <string>
#include <vector>

#include "tools/lyre/options.h"

namespace lyre::tools {

struct MetricsOptions {
  std::string listen = "127.0.0.1:9417";           ///< ADDR:PORT, or a path
  std::vector<std::string> telemetry_directories;  ///< where NCCL's plugin writes
  bool is_per_comm = false;                        ///< series of each comm, too
  bool is_once = false;                            ///< print what a scrape gets, and end
};

/// `lyre metrics`: serves /metrics until SIGINT or SIGTERM. Each scrape reads the stats segment, so
/// the daemon does nothing for it.
/// Fails: throws Failure. A daemon that cannot be read is no failure of the server: `lyre_up` is 0
/// then, and a line on stderr has the reason. With is_once it is one, after the same was printed.
void run_metrics(const GlobalOptions& globals, const MetricsOptions& options);

}  // namespace lyre::tools
