#include "daemon/client_identity.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/errno_error.h"

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
  if (pid <= 0) return OwnedFd();
  return OwnedFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

std::string describe(const ClientIdentity& identity) {
  return "pid " + std::to_string(identity.pid) + " uid " + std::to_string(identity.uid) + " gid " +
         std::to_string(identity.gid);
}

}  // namespace lyre
