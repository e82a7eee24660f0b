#include "daemon/host/port_sockets.h"

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>

#include "machine/nic_guard.h"

namespace lyre {
namespace {

constexpr char kAllowed[] =
    ", allowed: a directory of the daemon's own user or of root that neither the group of the "
    "control socket nor others can enter, such as /run/lyred with mode 0700";

std::string octal(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

/// The groups that ControlServer gives the control sockets to.
std::vector<gid_t> clients_groups(const Config& config) {
  std::vector<gid_t> groups;
  for (const std::string& name : socket_groups(config)) {
    const group* found = name.empty() ? nullptr : ::getgrnam(name.c_str());
    groups.push_back(found != nullptr ? found->gr_gid : ::getegid());
  }
  return groups;
}

Error refusal(const std::string& directory, const std::string& reason) {
  return Error{EPERM, "the socket's directory " + directory + " " + reason + kAllowed};
}

Status check_entry(const std::string& directory, const struct stat& file,
                   const std::vector<gid_t>& clients_groups) {
  if (!S_ISDIR(file.st_mode)) return refusal(directory, "is not a directory");
  if ((file.st_mode & S_IRWXO) != 0) {
    return refusal(directory, "has mode " + octal(file.st_mode) + ", open to others");
  }
  if ((file.st_mode & S_IRWXG) != 0 && std::find(clients_groups.begin(), clients_groups.end(),
                                                 file.st_gid) != clients_groups.end()) {
    return refusal(directory, "has mode " + octal(file.st_mode) + ", open to group " +
                                  std::to_string(file.st_gid) + ", which may use this daemon");
  }
  return Ok{};
}

Error no_directory(const std::string& directory) {
  const int code = errno;
  return Error{code, "the socket's directory " + directory + ": " + std::strerror(code)};
}

Status check_address(const std::string& device, const std::string& socket) {
  if (socket.empty() || socket[0] != '/') {
    return Error{EINVAL, "a memif port needs socket=PATH, allowed: an absolute path"};
  }
  // Any process of the network namespace may connect to an abstract name (unix(7)).
  if (machine::device_argument(device, "socket-abstract") == "yes") {
    return Error{EINVAL,
                 "socket-abstract=yes is refused: any program may connect to such a "
                 "socket, allowed: no"};
  }
  return Ok{};
}

using DirectoryCheck = std::function<Status(const std::string& directory)>;

std::vector<Error> check_ports(const Config& config, const DirectoryCheck& check_directory) {
  std::vector<Error> errors;
  for (const PortConfig& port : config.ports) {
    if (port.device.rfind("net_memif", 0) != 0) continue;
    const std::string socket = machine::device_argument(port.device, "socket");
    Status status = check_address(port.device, socket);
    if (status.ok()) status = check_directory(socket.substr(0, socket.rfind('/') + 1));
    if (status.ok()) continue;
    errors.push_back(
        {status.error().code,
         complaint(config.file, port.lines.of("device"), "port.device",
                   "'" + port.device + "' of '" + port.name + "': " + status.error().text)});
  }
  return errors;
}

}  // namespace

Status check_socket_directory(const std::string& directory, const SocketDirectoryRule& rule) {
  struct stat file {};
  if (::stat(directory.c_str(), &file) != 0) return no_directory(directory);
  if (file.st_uid != rule.owner && file.st_uid != 0) {
    return refusal(directory, "belongs to uid " + std::to_string(file.st_uid));
  }
  return check_entry(directory, file, rule.clients_groups);
}

std::vector<Error> check_port_sockets(const Config& config) {
  return check_ports(config, [&](const std::string& directory) -> Status {
    struct stat file {};
    if (::stat(directory.c_str(), &file) != 0) {
      if (errno == ENOENT) return Ok{};
      return no_directory(directory);
    }
    return check_entry(directory, file, clients_groups(config));
  });
}

Status prepare_port_sockets(const Config& config) {
  const auto errors = check_ports(config, [&](const std::string& directory) -> Status {
    ::mkdir(directory.c_str(), S_IRWXU);
    return check_socket_directory(directory,
                                  {.owner = ::geteuid(), .clients_groups = clients_groups(config)});
  });
  if (errors.empty()) return Ok{};
  return errors.front();
}

}  // namespace lyre
