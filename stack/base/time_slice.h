#pragma once

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "stack/base/nanos.h"

namespace lyre {

/// The shortest that Linux grants.
inline constexpr Nanos kShortTimeSlice = micros(100);

/// Makes the calling thread's time slices short, if it is of the default class. Its share of the
/// core stays the same. A thread that wakes up preempts another one at once only if its own slices
/// are shorter (EEVDF, since Linux 6.12), or if that one yields and both are of one group of
/// threads (cgroup, or session by autogroup); otherwise it waits for the end of the other's slice,
/// 3 to 4 ms. Earlier kernels ignore the request. Where it is forbidden, nothing changes.
/// Threads that yield to each other on one core need slices of one length: a yield postpones a
/// thread's next turn by one slice of its own, so the one with the shorter slices runs many times
/// before the other one runs once.
/// Thread: any.
inline void ask_for_short_time_slices() {
  /// struct sched_attr of sched(7), in its first version.
  struct Attributes {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns;  ///< the time slice, in the default class
    uint64_t deadline_ns;
    uint64_t period_ns;
  };
  Attributes own{};
  if (::syscall(SYS_sched_getattr, 0, &own, sizeof own, 0) != 0) return;
  if (own.policy != SCHED_OTHER) return;
  own.size = sizeof own;
  own.runtime_ns = static_cast<uint64_t>(kShortTimeSlice.value);
  ::syscall(SYS_sched_setattr, 0, &own, 0);
}

}  // namespace lyre
