#pragma once

#include <algorithm>

#include "stack/base/nanos.h"

namespace lyre::io::dpdk {

/// A pause after a failure. It doubles with each failure in a row.
/// Thread: one.
class DoublingPause {
 public:
  /// That after the first failure, and the longest.
  DoublingPause(Nanos first, Nanos longest) : first_(first), longest_(longest) {}

  /// After one more failure.
  Nanos next() {
    pause_ = std::clamp(pause_ * 2, first_, longest_);
    return pause_;
  }
  void note_success() { pause_ = Nanos(); }
  /// It does not grow any more.
  bool is_longest() const { return pause_ == longest_; }

 private:
  const Nanos first_;
  const Nanos longest_;
  Nanos pause_;
};

}  // namespace lyre::io::dpdk
