#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace lyre::allreduce {

/// The input of a rank depends on these. So the result of an earlier all-reduce is detected as
/// wrong.
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

/// Fills in the input of `rank`: multiples of 1/1024 below 32. The sum over eight ranks is exact in
/// float32 in any order.
void fill_values(const ValueKey& key, int rank, std::span<float> out);

/// The ranks whose inputs a result is the sum of.
struct Summands {
  int first = 0;
  int count = 1;
};

/// Compares every element with the integer sum of the inputs of these ranks, which are computed
/// again.
std::optional<Mismatch> find_mismatch(const ValueKey& key, Summands ranks,
                                      std::span<const float> got);

}  // namespace lyre::allreduce
