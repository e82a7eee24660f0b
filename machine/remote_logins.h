#pragma once

#include <set>
#include <string>
#include <vector>

#include "machine/files.h"
#include "machine/own_addresses.h"

namespace lyre::machine {

/// SSH_CONNECTION of this process, or of the nearest ancestor that has it: sudo takes it away, and
/// root may read the environment of the shell. Empty: none has it.
std::string ssh_connection(const Roots& roots = {});

/// The kernel interfaces over which SSH sessions with this machine run: those that have the address
/// to which a connection to port 22 goes, and those over which the kernel routes packets to its
/// peer. The two may differ: two interfaces in one network, or routes of a rule (`ip rule`), which
/// are not seen. The same for the port of `ssh_connection`, which has the form of the variable
/// SSH_CONNECTION or is empty.
std::set<std::string> login_interfaces(const Roots& roots, const std::string& ssh_connection,
                                       const std::vector<OwnAddress>& own_addresses);

}  // namespace lyre::machine
