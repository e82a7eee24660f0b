#include "daemon/protocol/client_identity.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/base/errno_error.h"

namespace lyre {

Result<ClientIdentity> identity_of(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) {
    return errno_error("no peer credentials");
  }
  return ClientIdentity{.pid = peer.pid, .uid = peer.uid, .gid = peer.gid};
}

OwnedFd process_of(int socket, int32_t pid) {
  constexpr int kPeerPidfd = 77;  // SO_PEERPIDFD
  int process = -1;
  socklen_t bytes = sizeof process;
  if (::getsockopt(socket, SOL_SOCKET, kPeerPidfd, &process, &bytes) == 0) return OwnedFd(process);
  // Other errors tell of a process that is gone (EINVAL from Linux 6.5 to 6.15), and another one
  // may have its pid.
  if (errno != ENOPROTOOPT || pid <= 0) return OwnedFd();
  return OwnedFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

std::vector<uint32_t> groups_of(int socket, const ClientIdentity& identity) {
  constexpr size_t kGroupsMax = 65536;  // NGROUPS_MAX
  std::vector<uint32_t> groups(64);
  auto bytes = static_cast<socklen_t>(groups.size() * sizeof(uint32_t));
  int rc = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes);
  if (rc != 0 && errno == ERANGE && bytes <= kGroupsMax * sizeof(uint32_t)) {
    groups.resize(bytes / sizeof(uint32_t));  // the kernel said how many there are
    rc = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes);
  }
  groups.resize(rc == 0 ? bytes / sizeof(uint32_t) : 0);
  groups.push_back(identity.gid);
  return groups;
}

std::string describe(const ClientIdentity& identity) {
  return "pid " + std::to_string(identity.pid) + " uid " + std::to_string(identity.uid) + " gid " +
         std::to_string(identity.gid);
}

}  // namespace lyre
