#include "daemon/memory/client_mapping.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

#include "daemon/base/errno_error.h"
#include "daemon/base/readable.h"

namespace lyre {
namespace {

std::string own_link(int file) { return "/proc/self/fd/" + std::to_string(file); }

/// The device of the kernel's own mount for unnamed memory of this kind; 0 when there is none.
dev_t unnamed_device(unsigned memfd_flags) {
  const OwnedFd probe(::memfd_create("lyre-probe", MFD_CLOEXEC | memfd_flags));
  struct stat facts {};
  return probe.is_open() && ::fstat(probe.get(), &facts) == 0 ? facts.st_dev : 0;
}

/// True for the object behind shared anonymous memory. A name counts only on the kernel's own
/// mount, where no process can create one. `file` may be an O_PATH descriptor. The name comes
/// first: fstat() of a user's file system may wait for that user.
bool is_shared_anonymous(int file) {
  char name[64] = "";
  const ssize_t length = ::readlink(own_link(file).c_str(), name, sizeof name - 1);
  if (length < 0) return false;
  const std::string_view text(name, static_cast<size_t>(length));
  const bool is_huge = text == "/anon_hugepage (deleted)";
  if (!is_huge && text != "/dev/zero (deleted)") return false;
  struct stat facts {};
  return ::fstat(file, &facts) == 0 && facts.st_dev == unnamed_device(is_huge ? MFD_HUGETLB : 0);
}

/// Opens the object of a mapping if it is shared anonymous memory. O_PATH finds the object without
/// opening it: the open of a device, or of a user's file system, has effects. The check and the
/// open are of one object, so a client that changes the mapping meanwhile gains nothing.
Result<OwnedFd> open_shared_anonymous(int directory, const char* entry) {
  const OwnedFd object(::openat(directory, entry, O_PATH | O_CLOEXEC));
  if (!object.is_open()) return errno_error("the mapping cannot be looked at");
  if (!is_shared_anonymous(object.get())) return Error{EINVAL, "not shared anonymous memory"};
  OwnedFd file(::open(own_link(object.get()).c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return errno_error("the mapping cannot be opened");
  return file;
}

/// A pidfd becomes readable when its process ends.
bool is_alive(int process) { return !is_readable(process); }

/// The process is the one that connected, and has not executed a program with more privileges.
/// /proc/PID itself has the effective uid. What is below it becomes root's where the process may
/// not be inspected: set-uid, set-gid, or with capabilities of its file (proc_pid_status(5)).
Status check_owner(int directory, const ClientIdentity& client, int process) {
  struct stat facts {};
  if (::fstatat(directory, "map_files", &facts, 0) != 0 || !is_alive(process)) {
    return Error{ESRCH, "the process is gone"};
  }
  if (facts.st_uid == client.uid) return Ok{};
  return Error{EPERM,
               "the process has another user id than the client that connected, or may not be "
               "inspected"};
}

/// True for the daemon's end of a connection that another process opened. A socket that connected
/// to a listener has a peer with a name, the listener's: the credentials are then those of the
/// listening process, which made no request. A client's own socket has no name.
bool has_connected_to_us(int socket) {
  int domain = 0;
  socklen_t bytes = sizeof domain;
  if (::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) != 0 || domain != AF_UNIX) {
    return false;
  }
  sockaddr_un peer{};
  bytes = sizeof peer;
  return ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0 &&
         bytes <= offsetof(sockaddr_un, sun_path);
}

bool has_hung_up(int socket) {
  pollfd entry{.fd = socket, .events = POLLRDHUP, .revents = 0};
  return ::poll(&entry, 1, 0) != 0;
}

}  // namespace

Result<OwnedFd> open_mapping_of(const ClientIdentity& client, int process,
                                const ForeignMapping& mapping) {
  if (client.pid <= 0 || process < 0) {
    return Error{EPERM, "the process cannot be seen from the daemon's namespace"};
  }
  const std::string path = "/proc/" + std::to_string(client.pid);
  const OwnedFd directory(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open()) return Error{ESRCH, "the process is gone"};
  char entry[64];
  std::snprintf(entry, sizeof entry, "map_files/%llx-%llx",
                static_cast<unsigned long long>(mapping.begin),
                static_cast<unsigned long long>(mapping.end));
  // Twice: the process may exec a program at any moment.
  Status owner = check_owner(directory.get(), client, process);
  if (!owner.ok()) return owner.error();
  auto file = open_shared_anonymous(directory.get(), entry);
  owner = check_owner(directory.get(), client, process);
  if (!owner.ok()) return owner.error();
  return file;
}

Result<OwnedFd> open_client_mapping(int socket, const ForeignMapping& mapping) {
  if (!has_connected_to_us(socket)) return Error{EPERM, "not a connection of a client"};
  const auto client = identity_of(socket);
  if (!client.ok()) return client.error();
  const OwnedFd process = process_of(socket, client.value().pid);
  // Without SO_PEERPIDFD the number may mean another process once the client is gone.
  if (has_hung_up(socket)) return Error{ENOTCONN, "the client hung up"};
  return open_mapping_of(client.value(), process.get(), mapping);
}

}  // namespace lyre
