#pragma once

#include "daemon/config.h"
#include "daemon/nic_guard.h"

namespace lyre {

/// What only this machine can say of a configuration: its cores are there, no port takes away the
/// NIC through which the machine is reached, no client can reach a port's socket. Fills in the core
/// of "auto".
/// Fails: one line like those of load_config().
Status check_machine(Config& config, const NicGuard& guard);

}  // namespace lyre
