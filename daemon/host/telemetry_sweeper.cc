#include "daemon/host/telemetry_sweeper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/base/errno_error.h"
#include "daemon/host/capabilities.h"
#include "daemon/host/dead_telemetry.h"

namespace lyre {
namespace {

constexpr int kSocket = STDERR_FILENO + 1;

/// Keeps the socket only. Its other end is closed, or it would not tell of the end of the daemon.
/// Who reads the daemon's output waits until no process has it, so this one has it neither.
bool drop_descriptors(int socket) {
  if (socket != kSocket && ::dup3(socket, kSocket, O_CLOEXEC) < 0) return false;
  if (::close_range(kSocket + 1, ~0U, 0) != 0) {  // an older kernel, or a filter
    const long end = ::sysconf(_SC_OPEN_MAX);
    if (end < 0) return false;
    for (int fd = kSocket + 1; fd < end; ++fd) ::close(fd);
  }
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (nothing < 0) {
      ::close(number);
    } else {
      ::dup2(nothing, number);
    }
  }
  if (nothing > kSocket) ::close(nothing);
  return true;
}

/// False: the daemon has ended.
bool wait_for_next(int socket, Nanos period) {
  pollfd entry{.fd = socket, .events = POLLIN, .revents = 0};
  const auto period_ms = static_cast<int>(period.value / millis(1).value);
  const int ready = ::poll(&entry, 1, period_ms);
  return ready == 0 || (ready < 0 && errno == EINTR);
}

/// SIGHUP, and the SIGABRT of systemd's watchdog, are the daemon's.
[[noreturn]] void run_telemetry_sweeper(int socket, const std::string& directory, Nanos period) {
  ::prctl(PR_SET_NAME, "lyred-sweep");
  for (const int number : {SIGHUP, SIGABRT, SIGPIPE}) ::signal(number, SIG_IGN);
  if (!drop_descriptors(socket) || !drop_capabilities(0).ok()) ::_exit(1);
  DeadTelemetryRemover remover(directory);
  while (wait_for_next(kSocket, period)) remover.sweep();
  ::_exit(0);
}

}  // namespace

Result<TelemetrySweeper> TelemetrySweeper::start(const std::string& directory, Nanos period) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return errno_error("no socket for the process that removes telemetry files");
  }
  OwnedFd own(ends[0]);
  const OwnedFd others(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return errno_error("no process to remove telemetry files");
  if (pid == 0) run_telemetry_sweeper(others.get(), directory, period);  // which closes `own`
  return TelemetrySweeper(std::move(own), pid);
}

}  // namespace lyre
