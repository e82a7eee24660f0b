#pragma once

#include <algorithm>
#include <cstdint>

namespace lyre::worker {

/// A pass over all connections that is spread over turns, so that no turn grows with their number.
/// Thread: the worker.
class ConnectionWalk {
 public:
  /// Starts at the first connection, also where a pass is under way.
  void begin() {
    next_ = 0;
    is_under_way_ = true;
  }
  bool is_under_way() const { return is_under_way_; }

  /// Calls visit(index) for at most `count_max` indices below `bound`; the pass is over when it
  /// reaches `bound`. Returns how many it called for. REQUIRES: a pass is under way.
  template <typename Visit>
  uint32_t step(uint32_t bound, uint32_t count_max, Visit visit) {
    const uint32_t begin = std::min(next_, bound);
    next_ = begin + std::min(bound - begin, count_max);
    for (uint32_t index = begin; index < next_; ++index) visit(index);
    is_under_way_ = next_ < bound;
    return next_ - begin;
  }

 private:
  uint32_t next_ = 0;
  bool is_under_way_ = false;
};

}  // namespace lyre::worker
