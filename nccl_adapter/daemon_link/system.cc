#include "nccl_adapter/daemon_link/system.h"

#include <poll.h>
#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void sleep_ns(int64_t ns) {
  const timespec pause{.tv_sec = ns / kNsPerSecond, .tv_nsec = ns % kNsPerSecond};
  ::nanosleep(&pause, nullptr);
}

void yield_core() { ::sched_yield(); }

void wait_readable(int one, int other, int64_t ns) {
  pollfd entries[] = {{one, POLLIN, 0}, {other, POLLIN, 0}};
  const timespec limit{.tv_sec = ns / kNsPerSecond, .tv_nsec = ns % kNsPerSecond};
  ::ppoll(entries, 2, &limit, nullptr);
}

Nonce make_nonce() {
  Nonce nonce{};
  size_t filled = 0;
  while (filled < nonce.size()) {
    const ssize_t n = ::getrandom(nonce.data() + filled, nonce.size() - filled, 0);
    if (n > 0) filled += static_cast<size_t>(n);
  }
  return nonce;
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

uint32_t process_id() { return static_cast<uint32_t>(::getpid()); }

// Never destroyed: NCCL's threads may still close while the process runs its exit handlers.
HostPatience& host_patience() {
  static HostPatience& the_patience = *new HostPatience;
  return the_patience;
}

// Never destroyed, for the same reason.
Shortage& shortage() {
  static Shortage& the_shortage = *new Shortage;
  return the_shortage;
}

}  // namespace lyre::nccl_adapter
