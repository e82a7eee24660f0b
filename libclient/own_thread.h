#pragma once

#include <sched.h>

#include <optional>

#include "libclient/starvation.h"

/// What the library asks the kernel about the calling thread, and of it. Thread: any.
namespace lyre::client {

/// Nothing where the kernel keeps no such account, or /proc is not there.
std::optional<RunDelay> read_run_delay();

/// Keeps a thread off the core that it had. Linux's balancer would bring it back there, to a thread
/// that computes, as soon as more threads of Lyre share the other core.
/// Thread: one at a time; end() may be called by another one than begin().
class CoreAvoidance {
 public:
  CoreAvoidance() = default;
  ~CoreAvoidance() { end(); }
  CoreAvoidance(const CoreAvoidance&) = delete;
  CoreAvoidance& operator=(const CoreAvoidance&) = delete;

  /// The calling thread leaves its core for others that its affinity allows. False: there is none,
  /// or the system forbids it.
  bool begin();
  /// The thread's affinity is again what it was, unless somebody else changed it meanwhile.
  void end();

 private:
  int thread_ = 0;  ///< its identifier; 0: none
  cpu_set_t allowed_{};
  cpu_set_t others_{};
};

}  // namespace lyre::client
