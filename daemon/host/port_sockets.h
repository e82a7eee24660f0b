#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "daemon/config/config.h"

namespace lyre {

// A process that can connect to the socket of a memif port can stop the daemon: DPDK's memif server
// ends the process (rte_panic) when a client connects and closes at once, and each end trusts the
// other's offsets. The socket therefore lies in a directory that only peers can enter.

/// The owner of such a directory, and the groups that must not enter it.
struct SocketDirectoryRule {
  uid_t owner = 0;                    ///< besides root
  std::vector<gid_t> clients_groups;  ///< those who may open a control socket
};

/// Fails: one line that says who can enter `directory` and what is allowed. ENOENT: it is not
/// there.
Status check_socket_directory(const std::string& directory, const SocketDirectoryRule& rule);

/// The sockets of memif ports are files, not abstract names, and the directories of those that
/// exist deny access to clients and other users. Changes nothing, and does not check the owner of
/// a directory, since `lyred --check` may run as another user than the daemon.
/// Returns a line like those of load_config() for each port that is wrong.
std::vector<Error> check_port_sockets(const Config& config);

/// The same for the process that will open the ports: makes directories that are missing (mode
/// 0700, their last component only), and checks their owner as well.
Status prepare_port_sockets(const Config& config);

}  // namespace lyre
