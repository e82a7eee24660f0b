#pragma once

#include <vector>

#include "daemon/config/config.h"
#include "machine/nic_guard.h"

namespace lyre {

/// Checks a configuration against this machine: the cores exist, no port takes a NIC that keeps the
/// machine reachable, no two ports have packet sockets on one interface, no client can reach a
/// port's socket. Places the workers. Returns what is wrong, each with a line like those of
/// load_config(); EBUSY: it passes by itself.
std::vector<Error> check_machine(Config& config, const machine::NicGuard& guard,
                                 const machine::Roots& roots);

}  // namespace lyre
