#pragma once

#include "stack/base/nanos.h"

namespace lyre {

/// Whether another thread computes on this thread's core, learned from how long its yields took.
/// sched_yield() gives a computing thread a whole slice, but Linux interrupts a computing thread
/// for one that wakes up. So a thread that polls may yield while nobody computes, and has to sleep
/// while somebody does.
/// Thread: its owner's.
class CoreContention {
 public:
  /// A yield this long gave a slice away: slices of Linux last 1.4 to 4 ms. A thread that only
  /// looks for work gives the core back within some 10 us.
  static constexpr Nanos kSlice = micros(1200);
  /// How long the answer stands at first, and at most. Then the next yields ask again: the same
  /// answer costs another slice and stands twice as long, a short yield halves the time.
  static constexpr Nanos kMemoryMin = millis(2);
  static constexpr Nanos kMemoryMax = millis(320);

  /// A yield took `took` and is over at `now`.
  void on_yield(Nanos took, Nanos now) {
    if (took < kSlice) {
      memory_ = later(memory_ / 2, kMemoryMin);
      return;
    }
    contended_until_ = now + memory_;
    memory_ = earlier(memory_ * 2, kMemoryMax);
  }
  bool is_contended(Nanos now) const { return now < contended_until_; }

 private:
  Nanos memory_ = kMemoryMin;
  Nanos contended_until_{INT64_MIN / 2};
};

}  // namespace lyre
