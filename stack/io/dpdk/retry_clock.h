#pragma once

#include "stack/base/nanos.h"
#include "stack/io/dpdk/doubling_pause.h"

namespace lyre::io::dpdk {

/// When to try again to bring a device back: it may take a second of the control thread, and some
/// devices never come back. The time between two attempts doubles.
/// Thread: one.
class RetryClock {
 public:
  static constexpr Nanos kPeriodMin = seconds(1);
  static constexpr Nanos kPeriodMax = seconds(60);

  /// An attempt failed. The next look() begins the period.
  void note_failure() {
    period_ = pause_.next();
    at_ = kNever;
    is_to_begin_ = true;
  }
  void note_success() {
    pause_.note_success();
    at_ = Nanos();
    is_to_begin_ = false;
  }
  /// The time between two attempts does not grow any more.
  bool is_slowest() const { return pause_.is_longest(); }
  void look(Nanos now) {
    now_ = now;
    if (is_to_begin_) at_ = now + period_;
    is_to_begin_ = false;
  }
  bool is_due() const { return now_ >= at_; }

 private:
  DoublingPause pause_{kPeriodMin, kPeriodMax};
  Nanos now_;
  Nanos at_;
  Nanos period_;
  bool is_to_begin_ = false;
};

}  // namespace lyre::io::dpdk
