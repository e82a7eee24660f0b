#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "machine/nic_guard.h"

namespace lyre {

/// Which cores count as there.
enum class Cores : uint8_t {
  kOfThisProcess,  ///< those of its CPU affinity, for a start
  /// Those of its cpuset, for `lyred --check` in a shell: the affinity of the service is another.
  kOfService,
};

/// Checks a configuration against this machine: the cores exist, no port takes a NIC that keeps the
/// machine reachable, no two ports have packet sockets on one interface, no client can reach a
/// port's socket. Places the workers. Returns what is wrong, each with a line like those of
/// load_config(); EBUSY: it passes by itself. "auto" takes cores of this process.
std::vector<Error> check_machine(Config& config, const machine::NicGuard& guard,
                                 const machine::Roots& roots, Cores cores = Cores::kOfThisProcess);

/// Places the workers of "auto" again, as place_workers() does.
/// REQUIRES: check_machine(), 0 < least <= most.
void limit_workers(Config& config, const machine::Roots& roots, uint32_t least, uint32_t most);

/// A line about the isolated cores of workers that this process may not use: a service may use them
/// only where its unit names them. Empty: there is none. `lyre doctor` reads it.
std::string affinity_text(const Config& config, const machine::Roots& roots);

}  // namespace lyre
