#pragma once

#include "stack/base/nanos.h"

namespace lyre {

/// Whether another thread is running on this thread's core, estimated from the duration of this
/// thread's yields. sched_yield() gives a running thread a whole time slice, but Linux preempts a
/// running thread for one that wakes up. So a polling thread may yield while its core is otherwise
/// idle, and has to sleep while another thread runs there.
/// Thread: its owner's.
class CoreContention {
 public:
  /// A yield this long gave a time slice away: Linux slices last 1.4 to 4 ms. A thread that only
  /// polls gives the core back within some 10 us.
  static constexpr Nanos kSlice = micros(1200);
  /// How long an answer is valid, at first and at most. After that the next yields measure again.
  /// The same answer costs another slice and doubles the time; a short yield halves it.
  static constexpr Nanos kMemoryMin = millis(2);
  static constexpr Nanos kMemoryMax = millis(320);
  /// kMemoryMin of a client. Clients on one core yield to each other, so a short yield tells little
  /// about a third thread that computes there.
  static constexpr Nanos kSharedMemoryMin = millis(20);

  explicit CoreContention(Nanos memory_min = kMemoryMin)
      : memory_min_(memory_min), memory_(memory_min) {}

  /// Reports that a yield took `took` and returned at `now`.
  void on_yield(Nanos took, Nanos now) {
    if (took < kSlice) {
      memory_ = later(memory_ / 2, memory_min_);
      return;
    }
    contended_until_ = now + memory_;
    memory_ = earlier(memory_ * 2, kMemoryMax);
  }
  bool is_contended(Nanos now) const { return now < contended_until_; }

 private:
  Nanos memory_min_;
  Nanos memory_;
  Nanos contended_until_{INT64_MIN / 2};
};

}  // namespace lyre
