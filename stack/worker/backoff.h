#pragma once

#include "stack/base/nanos.h"

namespace lyre::worker {

/// When to try again what does not go on: soon at first, then after twice the time each, up to a
/// limit, until it goes on. Thread: the worker.
class Backoff {
 public:
  Backoff(Nanos first, Nanos longest) : first_(first), longest_(longest) {}

  /// It does not go on. True: it does not since the last time that this was so, and that time is
  /// over.
  bool stall(Nanos now) {
    const bool is_due = is_stalled_ && now >= due_;
    if (is_stalled_ && !is_due) return false;
    interval_ = is_stalled_ ? earlier(interval_ * 2, longest_) : first_;
    due_ = now + interval_;
    is_stalled_ = true;
    return is_due;
  }
  /// It goes on.
  void reset() { is_stalled_ = false; }

  bool is_stalled() const { return is_stalled_; }
  Nanos next_deadline() const { return is_stalled_ ? due_ : kNever; }

 private:
  Nanos first_;
  Nanos longest_;
  bool is_stalled_ = false;
  Nanos interval_{0};
  Nanos due_{0};
};

}  // namespace lyre::worker
