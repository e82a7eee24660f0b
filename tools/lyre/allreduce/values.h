#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace lyre::allreduce {

/// What a rank's input depends on: another seed, iteration or bucket gives other numbers, so that a
/// result left over from an earlier all-reduce cannot pass.
struct ValueKey {
  uint64_t seed = 0;
  uint32_t iteration = 0;
  uint32_t bucket = 0;
};

struct Mismatch {
  uint64_t element;
  float got;
  float expected;
};

/// The input of `rank`: multiples of 1/1024 below 32, so that the sum over eight ranks is exact in
/// float32 in whatever order it is made.
void fill_values(const ValueKey& key, int rank, std::span<float> out);

/// Compares every element with the integer sum of all ranks' regenerated inputs.
std::optional<Mismatch> find_mismatch(const ValueKey& key, int ranks, std::span<const float> got);

}  // namespace lyre::allreduce
