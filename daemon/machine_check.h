#pragma once

#include "daemon/config.h"
#include "daemon/nic_guard.h"

namespace lyre {

/// Checks a configuration against this machine: the cores exist, no port takes the NIC of the
/// default route, no client can reach a port's socket. Sets the core of "auto". Fails: one line
/// like those of load_config().
Status check_machine(Config& config, const NicGuard& guard);

}  // namespace lyre
