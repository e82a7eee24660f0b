#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace lyre::worker {

/// A walk over all contexts that a turn may cut short. The next walk begins behind the context at
/// which the last one was cut short, so that each context is reached.
class ContextWalk {
 public:
  /// Calls `visit(index)` for each of `contexts` once, until it returns false.
  template <typename Visit>
  void over(std::span<const uint32_t> contexts, Visit&& visit) {
    const size_t count = contexts.size();
    if (first_ >= count) first_ = 0;  // contexts were closed meanwhile
    for (size_t i = 0; i < count; ++i) {
      const size_t place = first_ + i < count ? first_ + i : first_ + i - count;
      if (visit(contexts[place])) continue;
      first_ = place + 1;
      return;
    }
  }

 private:
  size_t first_ = 0;
};

}  // namespace lyre::worker
