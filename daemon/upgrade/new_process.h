#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "daemon/base/owned_fd.h"
#include "stack/base/nanos.h"
#include "stack/base/result.h"

namespace lyre {

/// Where a new process finds its end of the socket pair.
inline constexpr int kUpgradeDescriptor = 3;

/// The path of this process's program, as it was when the process started: another file may have
/// taken its place since then. Call it before anything else.
std::string program_path();

/// Whether another process can go on in the place of process `own`. Fails: ENOTSUP, it is the main
/// process of its container, with which the container ends. `container_main`: LYRE_CONTAINER_MAIN,
/// that process as the container's start script says; nullptr: it says nothing.
Status check_may_be_replaced(pid_t own, const char* container_main);

/// How a process ended.
struct ProcessEnd {
  std::string text;         ///< "ended with status 2"
  bool has_exited = false;  ///< by itself: it had time to say why
};

/// A process that was started to go on in the place of this one. Owner: the destructor ends it,
/// unless it was let go. Thread: the control thread.
class NewProcess {
 public:
  /// Starts `program` with `arguments`, with this thread's capabilities, and with one end of a
  /// socket pair as kUpgradeDescriptor. It has no other descriptor but 0, 1 and 2. Fails: what the
  /// system says.
  static Result<NewProcess> start(const std::string& program,
                                  const std::vector<std::string>& arguments);
  NewProcess(NewProcess&& other) noexcept;
  NewProcess& operator=(NewProcess&& other) noexcept;
  ~NewProcess() { kill(); }

  pid_t pid() const { return pid_; }
  /// Our end of the pair, once.
  OwnedFd take_socket() { return std::move(socket_); }
  /// Waits until it has ended by itself; kills it when it has not after `patience`.
  ProcessEnd await_end(Nanos patience);
  void kill();
  /// It goes on by itself.
  void let_go() { pid_ = -1; }

 private:
  NewProcess(pid_t pid, OwnedFd socket) : pid_(pid), socket_(std::move(socket)) {}

  pid_t pid_ = -1;
  OwnedFd socket_;
};

}  // namespace lyre
