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

// A 16-bit signed number for each element (xorshift, Marsaglia 2003). Shifts and additions only:
// x86-64 without AVX2 has no vector instruction that multiplies 32-bit numbers, and a rank must not
// take longer for its values than for the all-reduce.
inline int32_t raw_value(uint32_t stream, uint32_t element) {
  uint32_t x = element + stream;
  x ^= x << 13;
  x ^= x >> 17;
  x ^= x << 5;
  return static_cast<int32_t>(x) >> 16;
}

// Compares to the end, so that the vectoriser can take it.
bool matches(std::span<const int32_t> sums, std::span<const float> got) {
  uint32_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    wrong |= static_cast<uint32_t>(got[i] != static_cast<float>(sums[i]) * kScale);
  }
  return wrong == 0;
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
    const std::span<const float> part = got.subspan(begin, count);
    if (matches(sums, part)) continue;
    for (size_t i = 0; i < count; ++i) {
      const float expected = static_cast<float>(sums[i]) * kScale;
      if (part[i] != expected) return Mismatch{begin + i, part[i], expected};
    }
  }
  return std::nullopt;
}

}  // namespace lyre::allreduce
