#pragma once

#include <algorithm>
#include <cstdint>

namespace lyre::nccl_adapter {

/// Time during which this process ran: the timeouts of peers and of the daemon are measured on it.
/// A process that was stopped, or did not get a processor, could not take the answers that came
/// meanwhile, so of the time between two looks at most kLookNsMax counts, unless the process is
/// known to have waited for the daemon. Thread: under the instance's lock.
class AttentiveClock {
 public:
  /// The progress thread looks every 100 ms, so time that NCCL spends elsewhere counts in full.
  static constexpr int64_t kLookNsMax = 150'000'000;

  explicit AttentiveClock(int64_t monotonic_ns)
      : monotonic_ns_(monotonic_ns), now_ns_(monotonic_ns) {}

  /// A look at the network, at `monotonic_ns`. At most `counted_ns_max` of the time since the last
  /// one counts.
  void look(int64_t monotonic_ns, int64_t counted_ns_max = kLookNsMax) {
    now_ns_ += std::clamp<int64_t>(monotonic_ns - monotonic_ns_, 0, counted_ns_max);
    monotonic_ns_ = monotonic_ns;
  }
  /// As of the last look.
  int64_t now_ns() const { return now_ns_; }
  /// The same moment on the clock that other processes read.
  int64_t monotonic_ns() const { return monotonic_ns_; }
  /// A moment of this clock on theirs, as if all time since then had counted.
  int64_t to_monotonic_ns(int64_t then_ns) const { return monotonic_ns_ - (now_ns_ - then_ns); }

 private:
  int64_t monotonic_ns_;
  int64_t now_ns_;
};

}  // namespace lyre::nccl_adapter
