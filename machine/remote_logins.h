#pragma once

#include <set>
#include <string>

#include "machine/files.h"

namespace lyre::machine {

/// SSH_CONNECTION of this process, or of the nearest ancestor that has it: sudo takes it away, and
/// root may read the environment of the shell. Empty: none has it.
std::string ssh_connection(const Roots& roots = {});

/// The kernel interfaces over which SSH sessions with this machine run: where the kernel routes
/// packets to the peers of connections to port 22, and to the port of `ssh_connection`, which has
/// the form of the variable SSH_CONNECTION or is empty.
std::set<std::string> login_interfaces(const Roots& roots, const std::string& ssh_connection);

}  // namespace lyre::machine
