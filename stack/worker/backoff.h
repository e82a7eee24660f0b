#pragma once

#include "stack/base/nanos.h"

namespace lyre::worker {

/// The retry interval of a stalled operation: short at first, then twice as long each time, up to a
/// limit, until the operation makes progress. Thread: the worker.
class Backoff {
 public:
  Backoff(Nanos first, Nanos longest) : first_(first), longest_(longest) {}

  /// The operation is stalled. True: it was stalled before, and the retry interval is over; the
  /// next one, twice as long, begins.
  bool stall(Nanos now) {
    const bool is_due = is_stalled_ && now >= due_;
    if (is_stalled_ && !is_due) return false;
    interval_ = is_stalled_ ? earlier(interval_ * 2, longest_) : first_;
    due_ = now + interval_;
    is_stalled_ = true;
    return is_due;
  }
  /// The operation makes progress.
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
