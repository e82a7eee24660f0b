#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#if defined(__has_feature)
#define LYRE_HAS_FEATURE(x) __has_feature(x)
#else
#define LYRE_HAS_FEATURE(x) 0
#endif

namespace lyre::sim {

/// Whether a sanitizer makes this program several times slower: fewer seeds do there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    LYRE_HAS_FEATURE(address_sanitizer) || LYRE_HAS_FEATURE(thread_sanitizer)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

/// The seeds of a simulator's test of `seeds` seeds: fewer of them where this program is slow.
/// LYRE_TEST_SLOWNESS says how many times, to programs that an emulator runs.
inline uint64_t affordable(uint64_t seeds) {
  const char* slowness = std::getenv("LYRE_TEST_SLOWNESS");
  const uint64_t times = slowness == nullptr ? 1 : std::strtoull(slowness, nullptr, 10);
  return std::max<uint64_t>(1, seeds / std::max<uint64_t>(1, times));
}

}  // namespace lyre::sim
