#include "tools/lyre/doctor/listener.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>

namespace lyre::tools {

HeldFile::HeldFile(const std::string& path)
    : file_(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC)) {}

std::optional<Listener> listener_at(const std::string& socket_path, bool* is_busy) {
  *is_busy = false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) return std::nullopt;
  socket_path.copy(address.sun_path, socket_path.size());
  // Non-blocking: a connect waits for a backlog that is full.
  const client::UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    *is_busy = errno == EAGAIN;
    return std::nullopt;
  }
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return std::nullopt;
  return Listener{.pid = peer.pid, .uid = peer.uid};
}

bool may_be_daemon(const Listener& listener) {
  if (listener.uid == 0 || listener.uid == ::geteuid()) return true;
  const passwd* lyre = ::getpwnam("lyre");
  return lyre != nullptr && lyre->pw_uid == listener.uid;
}

std::string process_text(const Listener& listener) {
  return "process " + std::to_string(listener.pid) + " of uid " + std::to_string(listener.uid);
}

}  // namespace lyre::tools
