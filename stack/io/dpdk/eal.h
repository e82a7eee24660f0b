#pragma once

#include <string>

#include "stack/base/result.h"
#include "stack/io/dpdk/environment.h"

namespace lyre::io::dpdk {

struct EalFacts {
  bool has_hugepages = false;
  bool uses_physical_addresses = false;
};

/// Starts DPDK's environment abstraction layer, once per process.
/// Thread: the control thread, whose CPU affinity is unchanged afterwards.
/// It is never stopped: rte_eal_cleanup() unmaps memory that its own interrupt thread still reads,
/// and nothing that it started outlives the process (no shared configuration, anonymous hugepages).
Result<EalFacts> start_eal(const EnvironmentOptions& options);

/// The first error that DPDK logged while it started, although it did start; empty: none. A device
/// that could not be opened is no failure of the start.
/// Thread: the control thread.
const std::string& first_error_of_start();

}  // namespace lyre::io::dpdk
