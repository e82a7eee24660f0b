#pragma once

#include <cstddef>
#include <cstdint>

#include "tools/lyre/snapshot.h"

namespace lyre::tools {

/// The clock of a capture: the wall clock at its begin, and CLOCK_MONOTONIC since then.
struct CaptureClock {
  int64_t begin_unix_ns = 0;
  int64_t begin_monotonic_ns = 0;

  int64_t unix_ns_at(int64_t monotonic_ns) const {
    return begin_unix_ns + monotonic_ns - begin_monotonic_ns;
  }
  /// This clock minus that of the daemon with the stats segment `segment`: the wall clock may have
  /// been set since the daemon's start. Fails: as read_snapshot().
  int64_t step_from_daemon_ns(const void* segment, size_t bytes) const {
    return begin_unix_ns - read_snapshot(segment, bytes, begin_monotonic_ns).taken_unix_ns;
  }
};

}  // namespace lyre::tools
