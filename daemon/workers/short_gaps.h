#pragma once

#include <algorithm>
#include <cstddef>

#include "stack/base/nanos.h"

namespace lyre {

/// Whether clients' entries come again and again after short gaps, as from a job whose ranks
/// compute between two steps. The first message after a gap waits for the wake-up of a worker that
/// sleeps, and for code and data that left the caches meanwhile. A few entries now and then, as of
/// heartbeats, are not worth a core.
/// Thread: its owner's.
class ShortGaps {
 public:
  /// Shorter waits for work are part of a step.
  static constexpr Nanos kShortest = millis(5);
  static constexpr int kInARow = 4;
  /// Entries of clients: in the last step, half of those in the one before, and so on.
  static constexpr size_t kWorthwhile = 64;

  explicit ShortGaps(Nanos longest) : longest_(longest) {}

  /// A turn had so many entries, `idle` after the one before that had any.
  void on_entries(size_t entries, Nanos idle) {
    if (idle >= kShortest) {
      in_a_row_ = idle <= longest_ ? std::min(in_a_row_ + 1, kInARow) : 0;
      recent_ /= 2;
    }
    recent_ = std::min(recent_ + entries, kRememberedMax);
  }
  /// The last gaps were short, and this one, which has lasted `idle`, may be so, too.
  bool expects_work(Nanos idle) const {
    return in_a_row_ == kInARow && recent_ >= kWorthwhile && idle <= longest_;
  }

 private:
  /// A step of many entries counts as one for a dozen small ones after it.
  static constexpr size_t kRememberedMax = size_t{1} << 18;

  const Nanos longest_;
  size_t recent_ = 0;
  int in_a_row_ = 0;  ///< short gaps, since the last long one; kInARow at most
};

}  // namespace lyre
