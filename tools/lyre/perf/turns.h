#pragma once

#include <cstddef>

namespace lyre::perf {

/// The order in which conversations are stepped. All of a program's conversations send from one
/// memory: whoever comes first takes what was freed, so in each round another one comes first.
class Turns {
 public:
  /// Calls `step(index)` once for each index below `count`.
  template <typename Step>
  void next_round(size_t count, Step step) {
    for (size_t i = 0; i < count; ++i) step((first_ + i) % count);
    if (count > 0) first_ = (first_ + 1) % count;
  }

 private:
  size_t first_ = 0;
};

}  // namespace lyre::perf
