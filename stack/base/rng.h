#pragma once

#include <cstdint>

namespace lyre {

/// A small seeded generator (SplitMix64). It is the only source of randomness in stack/, so the
/// same seed gives the same run. It is not for secrets: those are keys given from outside (see
/// siphash.h).
class Rng {
 public:
  constexpr explicit Rng(uint64_t seed) : state_(seed) {}

  constexpr uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, bound) up to a bias of bound / 2^64.
  constexpr uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
  }
  /// True with a probability of `ppm` in a million.
  constexpr bool chance_ppm(uint32_t ppm) { return below(1'000'000) < ppm; }

 private:
  __extension__ using Wide = unsigned __int128;
  uint64_t state_;
};

}  // namespace lyre
