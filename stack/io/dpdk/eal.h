#pragma once

#include "stack/base/result.h"
#include "stack/io/dpdk/environment.h"

namespace lyre::io::dpdk {

struct EalFacts {
  bool has_hugepages = false;
  bool uses_physical_addresses = false;
};

/// Starts DPDK's environment abstraction layer, once a process.
/// Thread: the control thread, whose CPU affinity is the same afterwards.
Result<EalFacts> start_eal(const EnvironmentOptions& options);
void stop_eal();

}  // namespace lyre::io::dpdk
