#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libclient/stats_segment.h"

/// Who is behind the socket that a job's environment names. The job may name one of its own.
namespace lyre::tools {

/// A file that stays the same one whatever is put in its place, with a path of a few bytes.
class HeldFile {
 public:
  explicit HeldFile(const std::string& path);
  /// Of no file where there was none.
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_.get()); }

 private:
  client::UniqueFd file_;
};

/// The process that listens at a socket, as the kernel says.
struct Listener {
  int32_t pid = 0;  ///< 0: it is not visible in this PID namespace
  uint32_t uid = 0;
};

/// Connects, and asks nothing. None: nobody listens there, or not now, or this user may not
/// connect. `is_busy`: its queue of connections is full, so that a connection would wait.
std::optional<Listener> listener_at(const std::string& socket_path, bool* is_busy);

/// Root, the user `lyre`, or the user of this process.
bool may_be_daemon(const Listener& listener);

/// For people: "process 17 of uid 1000".
std::string process_text(const Listener& listener);

}  // namespace lyre::tools
