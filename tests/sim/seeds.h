#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace lyre::sim {

/// The seeds of a simulator's test of `seeds` seeds: fewer of them where this program is slow.
/// LYRE_TEST_SLOWNESS says how many times, to programs that an emulator runs.
inline uint64_t affordable(uint64_t seeds) {
  const char* slowness = std::getenv("LYRE_TEST_SLOWNESS");
  const uint64_t times = slowness == nullptr ? 1 : std::strtoull(slowness, nullptr, 10);
  return std::max<uint64_t>(1, seeds / std::max<uint64_t>(1, times));
}

}  // namespace lyre::sim
