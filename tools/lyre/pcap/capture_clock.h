#pragma once

#include <cstdint>

namespace lyre::tools {

/// The clock of a capture: the wall clock at its begin, and CLOCK_MONOTONIC since then.
struct CaptureClock {
  int64_t begin_unix_ns = 0;
  int64_t begin_monotonic_ns = 0;

  int64_t unix_ns_at(int64_t monotonic_ns) const {
    return begin_unix_ns + monotonic_ns - begin_monotonic_ns;
  }
  /// This clock minus that of a daemon with this offset from CLOCK_MONOTONIC: the wall clock may
  /// have been set since the daemon's start.
  int64_t step_from_ns(int64_t daemon_offset_ns) const {
    return begin_unix_ns - begin_monotonic_ns - daemon_offset_ns;
  }
};

}  // namespace lyre::tools
