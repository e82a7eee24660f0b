#pragma once

#include "stack/base/nanos.h"

namespace lyre {

/// The time between two looks of a periodic task. A process that was stopped, or whose machine was
/// paused, looks late, although what it looks at had no time to act.
/// Thread: one.
class LookClock {
 public:
  /// Returns the time since the last look; 0: this is the first one.
  Nanos look(Nanos now) {
    const Nanos since = last_ == kNever ? Nanos() : now - last_;
    last_ = now;
    return since;
  }

 private:
  Nanos last_ = kNever;
};

}  // namespace lyre
