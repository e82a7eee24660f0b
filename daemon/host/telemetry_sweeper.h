#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "daemon/base/owned_fd.h"
#include "stack/base/nanos.h"
#include "stack/base/result.h"

namespace lyre {

/// A process of the daemon that uses DeadTelemetryRemover again and again. A client can keep a
/// removal in the kernel for ever, where no signal ends it. A process keeps its memory and its
/// descriptors meanwhile, so this one has none of the daemon's.
/// Thread: the control thread. Owner: the process ends when this object or its process does, unless
/// a client keeps it. Nobody waits for that.
class TelemetrySweeper {
 public:
  /// Starts the process, without capabilities. It sweeps `directory` first after `period`, and then
  /// each `period` after a sweep. To be called before other threads, ports or memory of clients
  /// exist. Fails: no process, no socket.
  static Result<TelemetrySweeper> start(const std::string& directory, Nanos period);

  TelemetrySweeper() = default;
  pid_t pid() const { return pid_; }

 private:
  TelemetrySweeper(OwnedFd socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}

  OwnedFd socket_;  ///< the process ends when this end is closed
  pid_t pid_ = -1;
};

}  // namespace lyre
