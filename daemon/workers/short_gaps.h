#pragma once

#include <algorithm>
#include <cstddef>

#include "stack/base/nanos.h"

namespace lyre {

/// Whether a worker's work comes again and again after short gaps, as from a job whose ranks
/// compute between two steps. The first message after a gap waits for the wake-up of a worker that
/// sleeps, and for code and data that left the caches meanwhile. A few packets now and then, as of
/// heartbeats, are not worth a core.
/// Thread: its owner's.
class ShortGaps {
 public:
  /// Shorter waits for work are part of a step.
  static constexpr Nanos kShortest = millis(5);
  static constexpr int kInARow = 4;
  /// Packets and entries of clients: in the last step, half of those in the one before, and so on.
  static constexpr size_t kWorthwhile = 64;

  explicit ShortGaps(Nanos longest) : longest_(longest) {}

  /// A turn had so much work, `idle` after the one before that had any.
  void on_work(size_t work, Nanos idle) {
    if (idle >= kShortest) {
      in_a_row_ = idle <= longest_ ? std::min(in_a_row_ + 1, kInARow) : 0;
      recent_work_ /= 2;
    }
    recent_work_ = std::min(recent_work_ + work, kRememberedMax);
  }
  /// The last gaps were short, and this one, which has lasted `idle`, may be so, too.
  bool expects_work(Nanos idle) const {
    return in_a_row_ == kInARow && recent_work_ >= kWorthwhile && idle <= longest_;
  }

 private:
  /// A step of much work counts as one for a dozen small ones after it.
  static constexpr size_t kRememberedMax = size_t{1} << 18;

  const Nanos longest_;
  size_t recent_work_ = 0;
  int in_a_row_ = 0;  ///< short gaps, since the last long one; kInARow at most
};

}  // namespace lyre
