#pragma once

#include "tools/lyre/options.h"

namespace CLI {
class App;
}

namespace lyre::tools {

/// `lyre perf server` and `lyre perf client`: throughput and latency, over Lyre or the kernel.
void add_perf(CLI::App& app, const GlobalOptions& globals);

}  // namespace lyre::tools
