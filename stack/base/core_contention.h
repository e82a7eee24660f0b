#pragma once

#include "stack/base/nanos.h"

namespace lyre {

/// Whether another thread computes on this thread's core, estimated from the duration of this
/// thread's yields. sched_yield() gives a running thread a whole time slice, but Linux preempts a
/// running thread for one that wakes up and has shorter slices (time_slice.h). So a polling thread
/// may yield while its core is otherwise idle, and has to sleep while another thread computes
/// there.
/// Thread: its owner's.
class CoreContention {
 public:
  /// A yield this long gave a time slice away: Linux slices last 1.4 to 4 ms. A thread that only
  /// polls gives the core back within some 10 us.
  static constexpr Nanos kSlice = micros(1200);
  /// A thread that computes takes the core again this soon after its slice. Clients and workers
  /// of Lyre use a slice now and then, too, when they have much to do, and yield in between.
  static constexpr Nanos kBetweenSlices = millis(1);
  /// A shorter yield found no other thread to run on the core, one that was longer did: the time of
  /// two changes of threads and a poll.
  static constexpr Nanos kHandover = micros(3);
  /// A yield reaches the threads of its own group only: of its cgroup, or of its session where the
  /// kernel groups those (autogroup). A daemon that is a service is in no group with others. At
  /// least so many yields since the last lost slice found no thread, and they are the majority:
  /// then the thread that took the slice is out of reach. It computes, or polls, and one slice
  /// shows it. A client of the own group that wakes up and computes looks the same; that answer
  /// lasts for kMemoryMin.
  static constexpr uint32_t kVainYieldsMin = 16;
  /// This many slices in quick succession show that a thread computes. A client's own work between
  /// two steps does so, too, and is over a moment later.
  static constexpr int kSlicesInARow = 3;
  /// How long an answer is valid, at first and at most. After that the next yields measure again.
  /// The same answer doubles the time: then one slice shows it, if it is about as long as the one
  /// before. Clients that work give the core back earlier.
  static constexpr Nanos kMemoryMin = millis(4);
  static constexpr Nanos kMemoryMax = millis(320);
  /// After this time with short yields only, the next answer is a first one again. Some short
  /// yields alone do not show that no thread computes: threads of Lyre on one core yield to each
  /// other until they used up their share of it, which takes some milliseconds.
  static constexpr Nanos kForgetAfter = millis(10);

  /// Reports that a yield took `took` and returned at `now`.
  void on_yield(Nanos took, Nanos now) {
    if (took >= kSlice) return on_lost_slice(took, now);
    ++(took < kHandover ? vain_yields_ : handovers_);
    if (now >= contended_until_ + kForgetAfter) memory_ = kMemoryMin;
  }
  bool is_contended(Nanos now) const { return now < contended_until_; }

 private:
  void on_lost_slice(Nanos took, Nanos now) {
    const bool is_soon = now - took - lost_slice_at_ < kBetweenSlices;
    slices_in_a_row_ = is_soon ? slices_in_a_row_ + 1 : 1;
    lost_slice_at_ = now;
    const bool goes_on =
        now - took < contended_until_ + kForgetAfter && took >= slice_ - slice_ / 4;
    const bool is_out_of_reach = vain_yields_ >= kVainYieldsMin && vain_yields_ > handovers_;
    vain_yields_ = handovers_ = 0;
    if (slices_in_a_row_ < kSlicesInARow && !goes_on && !is_out_of_reach) return;
    slice_ = took;
    contended_until_ = now + memory_;
    memory_ = earlier(memory_ * 2, kMemoryMax);
  }

  Nanos memory_ = kMemoryMin;
  Nanos slice_{0};  ///< the one that the last answer came from
  Nanos contended_until_{INT64_MIN / 2};
  Nanos lost_slice_at_{INT64_MIN / 2};  ///< when the last one ended
  int slices_in_a_row_ = 0;
  uint32_t vain_yields_ = 0;  ///< since the last lost slice, as handovers_
  uint32_t handovers_ = 0;
};

}  // namespace lyre
