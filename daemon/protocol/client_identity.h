#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/owned_fd.h"
#include "stack/base/result.h"

namespace lyre {

/// Who connected to a socket of the daemon, as the kernel says (SO_PEERCRED).
struct ClientIdentity {
  int32_t pid = 0;  ///< 0: the process is not visible in our PID namespace
  uint32_t uid = UINT32_MAX;
  uint32_t gid = UINT32_MAX;
};

/// Fails: the system gives no credentials.
Result<ClientIdentity> identity_of(int socket);

/// A pidfd of the peer; none where there is no such process any more. From the socket if the kernel
/// can (Linux 6.5): there the pid cannot belong to another process meanwhile. `pid` is used only
/// where the kernel cannot.
OwnedFd process_of(int socket, int32_t pid);

/// The peer's groups: its own, and the supplementary ones where the kernel tells (Linux 4.13).
std::vector<uint32_t> groups_of(int socket, const ClientIdentity& identity);

/// For the log: "pid 17 uid 1000 gid 1000".
std::string describe(const ClientIdentity& identity);

}  // namespace lyre
