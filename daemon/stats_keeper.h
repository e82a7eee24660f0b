#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "daemon/base/owned_fd.h"
#include "stack/base/result.h"

namespace lyre {

/// A process of the daemon that holds the stats segment, and writes it to a file when the daemon
/// has ended, however that was. The segment itself is no file: a file cannot be sealed, and its
/// readers are containers, too.
/// Thread: the control thread. Owner: the process, which end() and the destructor wait for.
class StatsKeeper {
 public:
  /// Starts the process, with no capability but CAP_CHOWN and CAP_DAC_OVERRIDE. To be called before
  /// other threads exist. Fails: no process, no socket.
  static Result<StatsKeeper> start(const std::string& path);

  StatsKeeper() = default;
  StatsKeeper(StatsKeeper&& other) noexcept { *this = std::move(other); }
  StatsKeeper& operator=(StatsKeeper&& other) noexcept;
  ~StatsKeeper() { end(); }

  /// The segment is kept from now on, for those who may open the socket at `socket_path`. Without a
  /// process nothing is kept. Fails: the process has ended, no such socket.
  Status keep(int segment, const std::string& socket_path) const;

 private:
  void end();

  OwnedFd socket_;
  pid_t pid_ = -1;
};

}  // namespace lyre
