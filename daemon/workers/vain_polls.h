#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "stack/base/core_contention.h"
#include "stack/base/nanos.h"

namespace lyre {

/// Whether a worker on a crowded host polls in vain: nearly all of its yields find no thread to run
/// on its core. Then it takes a processor from threads that its yields do not reach: those of other
/// groups (cgroups, sessions), and those that Linux placed elsewhere, because this core is busy.
/// Where clients run on its core and get it by the yields, polling makes the job faster. So it does
/// for small messages in a row: each of them waits for the worker, and one that sleeps is late.
/// Thread: its owner's.
class VainPolls {
 public:
  /// So many yields are compared at least.
  static constexpr uint32_t kYieldsMin = 1000;
  /// In vain: less than one in so many yields found a thread. Measured on two cores: one in 270
  /// to 590 where sleeping is better. With 16 instead of 100, small messages in a row count as
  /// well, and take 1.4 times as long.
  static constexpr uint32_t kReachedPart = 100;
  /// For so many looks, at first and at most, the worker does not poll. Then it tries again. The
  /// same outcome doubles the time.
  static constexpr int kLooksMin = 8;
  static constexpr int kLooksMax = 64;
  /// Small messages in a row: between two idle turns the worker did less than this on the average.
  /// Measured on two cores: messages of 8 bytes 4 to 8, 64 KiB 7 to 19, 512 KiB 25 to 55, 16 MiB 60
  /// to 330 units of work.
  static constexpr size_t kStretchMin = 64;

  /// After each turn.
  void on_turn(size_t work) {
    stretch_ += work;
    if (work > 0 || stretch_ == 0) return;
    stretches_ += stretch_ - stretches_ / kAveraged;
    stretch_ = 0;
  }
  void on_yield(Nanos took) { ++(took < CoreContention::kHandover ? vain_ : reached_); }
  /// After each look at the host, see CrowdedHost.
  void on_look(bool is_crowded) {
    if (!is_crowded) {
      *this = {};
      return;
    }
    is_crowded_ = true;
    if (looks_left_ > 0) {
      --looks_left_;
    } else if (vain_ + reached_ >= kYieldsMin) {
      judge();
    }
  }
  /// As of the last look. The worker moves large messages.
  bool is_bulk_on_crowded_host() const {
    return is_crowded_ && stretches_ >= kAveraged * kStretchMin;
  }
  /// The worker sleeps as soon as it is idle.
  bool must_sleep() const { return looks_left_ > 0 && is_bulk_on_crowded_host(); }

 private:
  static constexpr size_t kAveraged = 8;

  void judge() {
    const bool is_in_vain = reached_ < (vain_ + reached_) / kReachedPart;
    vain_ = reached_ = 0;
    looks_left_ = is_in_vain ? memory_ : 0;
    memory_ = is_in_vain ? std::min(memory_ * 2, kLooksMax) : kLooksMin;
  }

  size_t stretch_ = 0;    ///< work since the last idle turn
  size_t stretches_ = 0;  ///< their average, times kAveraged
  uint32_t vain_ = 0;     ///< since the last judgement, as reached_
  uint32_t reached_ = 0;
  bool is_crowded_ = false;
  int looks_left_ = 0;
  int memory_ = kLooksMin;
};

}  // namespace lyre
