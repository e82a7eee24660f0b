#pragma once

#include <cstdint>

#include "stack/base/nanos.h"

namespace lyre::client {

/// When a thread that polls does its regular work: what the clock demands, and no message. After a
/// pause the thread polls because it has messages to exchange, and code and data left the caches
/// meanwhile: each line of them that the regular work reads takes some 130 ns from the first
/// message. So the work is put off, once: a thread that polls rarely does it at every second poll.
/// Thread: its owner's.
class RegularWork {
 public:
  /// A thread that polls does so more often.
  static constexpr Nanos kPause = millis(1);
  /// Two ranks exchange the first messages of a step in less.
  static constexpr Nanos kPutOffFor = micros(400);

  /// A poll at `now`. False: the work has to wait.
  bool may_run(Nanos now) {
    if (now - polled_at_ >= kPause) {
      put_off_until_ = is_put_off_ ? now : now + kPutOffFor;
      is_put_off_ = true;
    }
    polled_at_ = now;
    if (now < put_off_until_) return false;
    is_put_off_ = false;
    return true;
  }

 private:
  Nanos polled_at_{INT64_MIN / 2};
  Nanos put_off_until_{INT64_MIN / 2};
  bool is_put_off_ = false;  ///< since the last poll at which it might run
};

}  // namespace lyre::client
