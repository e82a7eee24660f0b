#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stack/io/dpdk/environment.h"
#include "tests/io_contract/wire.h"

namespace lyre::io::contract {

/// DPDK, started on first use and stopped at the process's end; the calling thread is registered.
/// Fails: as dpdk::start_environment().
Result<io::Backend*> environment(const std::vector<std::string>& nics = {});

/// A temporary folder of this process, removed when the process ends.
const std::string& scratch_folder();

/// Runs a command; true when it exits with 0.
bool run(const std::string& command);

/// Moves this process into a network namespace of its own, which ends with it. Call before DPDK
/// starts.
/// Fails: EPERM without the privilege.
Status enter_own_network();

/// The wire between two ports, opened in this order.
Result<std::unique_ptr<Wire>> open_dpdk_wire(const WireOptions& options, const PortOptions& left,
                                             const PortOptions& right);

}  // namespace lyre::io::contract
