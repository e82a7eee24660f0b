#include "tools/lyre/allreduce/values.h"

#include <algorithm>
#include <array>

namespace lyre::allreduce {
namespace {

constexpr float kScale = 1.0F / 1024.0F;
constexpr size_t kBlock = 2048;

uint64_t mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9U;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

uint32_t stream_key(const ValueKey& key, int rank) {
  uint64_t x = mix64(key.seed + 0x9e3779b97f4a7c15U);
  x = mix64(x ^ key.iteration);
  x = mix64(x ^ (uint64_t{key.bucket} << 32));
  return static_cast<uint32_t>(mix64(x + static_cast<uint64_t>(rank)) >> 32);
}

// A 16-bit signed number for each element; written for the vectoriser.
inline int32_t raw_value(uint32_t stream, uint32_t element) {
  uint32_t x = element * 0x9e3779b1U ^ stream;
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  return static_cast<int32_t>(x) >> 16;
}

}  // namespace

void fill_values(const ValueKey& key, int rank, std::span<float> out) {
  const uint32_t stream = stream_key(key, rank);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(raw_value(stream, static_cast<uint32_t>(i))) * kScale;
  }
}

std::optional<Mismatch> find_mismatch(const ValueKey& key, Summands ranks,
                                      std::span<const float> got) {
  std::array<int32_t, kBlock> sums;  // |sum| <= 8 * 2^15: exact here and in float32
  for (size_t begin = 0; begin < got.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, got.size() - begin);
    sums.fill(0);
    for (int rank = ranks.first; rank < ranks.first + ranks.count; ++rank) {
      const uint32_t stream = stream_key(key, rank);
      for (size_t i = 0; i < count; ++i) {
        sums[i] += raw_value(stream, static_cast<uint32_t>(begin + i));
      }
    }
    for (size_t i = 0; i < count; ++i) {
      const float expected = static_cast<float>(sums[i]) * kScale;
      if (got[begin + i] != expected) return Mismatch{begin + i, got[begin + i], expected};
    }
  }
  return std::nullopt;
}

}  // namespace lyre::allreduce
