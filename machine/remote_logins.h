#pragma once

#include <set>
#include <string>
#include <vector>

#include "machine/files.h"
#include "machine/own_addresses.h"
#include "machine/routes.h"

namespace lyre::machine {

/// SSH_CONNECTION of this process, or of the nearest ancestor that has it: sudo takes it away, and
/// root may read the environment of the shell. Empty: none has it.
std::string ssh_connection(const Roots& roots = {});

/// The kernel interfaces over which SSH sessions with this machine run: those that have the address
/// to which a connection to an SSH port goes, and those over which the kernel routes packets to its
/// peer, in each table that a rule names for packets from that address to that peer. The two may
/// differ: two interfaces in one network, or routes over several next hops. SSH ports are 22, that
/// of `ssh_connection`, which has the form of the variable SSH_CONNECTION or is empty, and those on
/// which a process of root named sshd listens, other than for the loopback. Its descriptors may be
/// read by root, and with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, which the service has. Sessions
/// at other ports are not seen: those of systemd's ssh.socket with Accept=yes, where systemd
/// listens; those at a port on which sshd listens no more; those of an SSH server in a PID
/// namespace whose processes /proc does not show.
std::set<std::string> login_interfaces(const Roots& roots, const std::string& ssh_connection,
                                       const std::vector<OwnAddress>& own_addresses,
                                       const Routing& routing);

}  // namespace lyre::machine
