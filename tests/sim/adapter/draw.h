#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "stack/base/rng.h"

namespace lyre::adapter_sim {

/// What a seed is drawn from.
class Draw {
 public:
  explicit Draw(uint64_t seed) : rng_(seed) {}
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng_.below(static_cast<uint64_t>(high - low + 1)));
  }
  size_t index(size_t count) { return static_cast<size_t>(rng_.below(count)); }
  bool percent(uint32_t percent) { return rng_.chance_ppm(percent * 10'000); }
  template <typename Value>
  Value one_of(std::initializer_list<Value> values) {
    return values.begin()[rng_.below(values.size())];
  }
  /// As many small ones as large ones, in the sense of a decade.
  int64_t of_any_size(int64_t low, int64_t high) {
    int64_t decades = 0;
    for (int64_t value = low; value < high; value *= 10) ++decades;
    int64_t bound = low;
    for (int64_t i = between(0, std::max<int64_t>(decades - 1, 0)); i > 0; --i) bound *= 10;
    return between(bound, std::min(bound * 10, high));
  }

 private:
  Rng rng_;
};

}  // namespace lyre::adapter_sim
