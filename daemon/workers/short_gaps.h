#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "stack/base/nanos.h"

namespace lyre {

/// Whether clients submit again and again after short gaps, as a job does whose ranks compute
/// between two steps. The first message after a gap waits for the wake-up of a worker that sleeps,
/// and for code and data that left the caches meanwhile. The steps of a job take about the same
/// time, so work is expected from half of the shortest of the last gaps on. A few submissions now
/// and then, as of heartbeats, are not worth a core.
/// Thread: its owner's.
class ShortGaps {
 public:
  /// Shorter waits for work are part of a step.
  static constexpr Nanos kShortest = millis(5);
  static constexpr int kInARow = 4;
  /// Submissions: in the last step, half of those in the one before, and so on.
  static constexpr size_t kWorthwhile = 32;
  /// The ranks of a job pause so long within a step, when their code and data left the caches.
  static constexpr Nanos kStepPause = micros(400);

  explicit ShortGaps(Nanos longest) : longest_(longest) {}

  /// A turn took so many from clients, `idle` after the one before that took any.
  void on_submissions(size_t count, Nanos idle) {
    if (idle >= kShortest) {
      in_a_row_ = idle <= longest_ ? std::min(in_a_row_ + 1, kInARow) : 0;
      gaps_[next_] = idle;
      next_ = (next_ + 1) % kInARow;
      recent_ /= 2;
    }
    recent_ = std::min(recent_ + count, kRememberedMax);
  }
  /// How long to wait until work is expected in this gap, which has lasted `idle`. 0: it may come
  /// at any moment. kNever: the last gaps were not short ones, or this one is not.
  Nanos until_expected(Nanos idle) const {
    if (!is_job() || idle > longest_) return kNever;
    const Nanos shortest = *std::min_element(gaps_.begin(), gaps_.end());
    return later(shortest / 2 - idle, Nanos{0});
  }
  /// The job's step goes on, `idle` after the last submission.
  bool is_in_step(Nanos idle) const { return idle < kStepPause && is_job(); }

 private:
  /// A step of many entries counts as one for a dozen small ones after it.
  static constexpr size_t kRememberedMax = size_t{1} << 18;

  bool is_job() const { return in_a_row_ >= kInARow && recent_ >= kWorthwhile; }

  const Nanos longest_;
  size_t recent_ = 0;
  std::array<Nanos, kInARow> gaps_{};  ///< the last ones, in any order
  size_t next_ = 0;                    ///< of gaps_, the oldest
  int in_a_row_ = 0;                   ///< short gaps, since the last long one; kInARow at most
};

}  // namespace lyre
