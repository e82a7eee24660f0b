#include "stack/io/dpdk/memif_listener.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

#include "stack/io/dpdk/interrupt_thread.h"
#include "stack/io/dpdk/kernel_interface.h"
#include "stack/io/dpdk/log.h"

namespace lyre::io::dpdk {
namespace {

constexpr std::string_view kDefaultPath = "/run/memif.sock";

enum class Kind : uint8_t { kListener, kAccepted };

/// The open ports of each path.
std::map<std::string, uint32_t>& ports_by_path() {
  static std::map<std::string, uint32_t> ports;
  return ports;
}

int option_of(int fd, int option) {
  int value = 0;
  socklen_t bytes = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, option, &value, &bytes) == 0 ? value : -1;
}

/// Of a file, or abstract: the driver tells its sockets apart by the text alone. What accept()
/// returns has the listener's name, and a client's socket has none.
std::string name_of_socket(int fd) {
  sockaddr_un address = {};
  socklen_t bytes = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return {};
  const auto end = std::min<size_t>(bytes, sizeof address);
  if (end <= offsetof(sockaddr_un, sun_path)) return {};
  std::string_view name(address.sun_path, end - offsetof(sockaddr_un, sun_path));
  if (name.front() == '\0') name.remove_prefix(1);
  return std::string(name.substr(0, name.find('\0')));
}

bool is_at(int fd, Kind kind, const std::string& path) {
  return option_of(fd, SO_TYPE) == SOCK_SEQPACKET &&
         option_of(fd, SO_ACCEPTCONN) == (kind == Kind::kListener ? 1 : 0) &&
         name_of_socket(fd) == path;
}

/// Puts a descriptor that is never readable in the listener's place. The number cannot be given
/// back: the callback cannot be removed without its address, and DPDK's interrupt thread ends the
/// process when a descriptor of its list is closed, or calls back for what has the number next.
void close_listener(const std::string& path) {
  for (const int fd : sockets_of(AF_UNIX).value_or(std::vector<int>())) {
    if (!is_at(fd, Kind::kListener, path)) continue;
    const int silent = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (silent < 0) return;
    ::dup3(silent, fd, O_CLOEXEC);
    ::close(silent);
  }
}

/// Calls `act` with each connection, and returns how many there are, or may be. They are looked at
/// by a descriptor of this thread's own, as the interrupt thread may close its own meanwhile.
template <typename Act>
size_t for_each_connection(const std::string& path, Act act) {
  const auto sockets = sockets_of(AF_UNIX);
  if (!sockets) return 1;  // not known
  size_t count = 0;
  for (const int fd : *sockets) {
    const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0) {
      if (errno != EBADF) ++count;
      continue;
    }
    if (is_at(own, Kind::kAccepted, path)) {
      act(own);
      ++count;
    }
    ::close(own);
  }
  return count;
}

/// The driver closes a connection that ends, in the interrupt thread.
size_t shut_connections_down(const std::string& path) {
  return for_each_connection(path, [](int fd) { ::shutdown(fd, SHUT_RDWR); });
}

/// A connection that is being accepted is there when the interrupt thread has finished. If it does
/// not finish, connections stay: it would see their end after the driver has freed the listener's.
/// Returns how many are left, or may be: without a descriptor to spare none can be looked at.
size_t take_down(const std::string& path) {
  constexpr int kTriesMax = 20;
  close_listener(path);
  bool has_finished = let_interrupt_thread_finish();
  for (int i = 0; has_finished && i < kTriesMax && shut_connections_down(path) > 0; ++i) {
    has_finished = let_interrupt_thread_finish();
  }
  if (has_finished) let_interrupt_thread_finish();  // what it frees after the last one's end
  return for_each_connection(path, [](int) {});
}

}  // namespace

void MemifListener::begin(const DeviceArgs& args) {
  if (args.driver() != "net_memif") return;
  path_ = args.has("socket") ? args.value_of("socket") : kDefaultPath;
  ++ports_by_path()[path_];
}

void MemifListener::end() {
  if (path_.empty()) return;
  const auto ports = ports_by_path().find(path_);
  if (--ports->second == 0) {
    ports_by_path().erase(ports);
    if (take_down(path_) > 0) {
      log_line(LogPriority::kWarning,
               path_ +
                   ": connections of this memif socket stay, as DPDK's interrupt thread did "
                   "not close them, or the daemon has no descriptor left to look for them: restart "
                   "the daemon when it suits");
    }
  }
  path_.clear();
}

}  // namespace lyre::io::dpdk
