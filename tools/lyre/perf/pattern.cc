#include "tools/lyre/perf/pattern.h"

#include <array>
#include <cstring>

namespace lyre::perf {
namespace {

constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
constexpr size_t kWordBytes = sizeof(uint64_t);

uint64_t word_at(uint64_t index, uint64_t seed) { return seed + index * kStep; }

uint8_t byte_at(uint64_t position, uint64_t seed) {
  return static_cast<uint8_t>(word_at(position / kWordBytes, seed) >>
                              (8 * (position % kWordBytes)));
}

/// Words computed in one loop of a known length, which compilers turn into vector instructions.
constexpr size_t kRowWords = 8;
using Row = std::array<uint64_t, kRowWords>;

Row row_at(uint64_t index, uint64_t seed) {
  Row row;
  for (size_t i = 0; i < kRowWords; ++i) row[i] = word_at(index + i, seed);
  return row;
}

void advance(Row& row) {
  for (size_t i = 0; i < kRowWords; ++i) row[i] += kRowWords * kStep;
}

/// Bytes until the next whole word, at most `bytes`.
size_t lead_bytes(uint64_t position, size_t bytes) {
  const size_t lead = (kWordBytes - position % kWordBytes) % kWordBytes;
  return lead < bytes ? lead : bytes;
}

}  // namespace

void fill_pattern(std::span<uint8_t> out, uint64_t position, uint64_t seed) {
  size_t at = 0;
  for (const size_t lead = lead_bytes(position, out.size()); at < lead; ++at) {
    out[at] = byte_at(position + at, seed);
  }
  const uint64_t first = (position + at) / kWordBytes;
  const size_t words = (out.size() - at) / kWordBytes;
  uint8_t* target = out.data() + at;
  size_t i = 0;
  for (Row row = row_at(first, seed); i + kRowWords <= words; i += kRowWords, advance(row)) {
    std::memcpy(target + i * kWordBytes, row.data(), sizeof row);
  }
  for (; i < words; ++i) {
    const uint64_t word = word_at(first + i, seed);
    std::memcpy(target + i * kWordBytes, &word, kWordBytes);
  }
  for (at += words * kWordBytes; at < out.size(); ++at) out[at] = byte_at(position + at, seed);
}

bool is_pattern(std::span<const uint8_t> bytes, uint64_t position, uint64_t seed) {
  size_t at = 0;
  uint64_t difference = 0;
  for (const size_t lead = lead_bytes(position, bytes.size()); at < lead; ++at) {
    difference |= bytes[at] ^ byte_at(position + at, seed);
  }
  const uint64_t first = (position + at) / kWordBytes;
  const size_t words = (bytes.size() - at) / kWordBytes;
  const uint8_t* source = bytes.data() + at;
  size_t i = 0;
  Row differences{};
  for (Row row = row_at(first, seed); i + kRowWords <= words; i += kRowWords, advance(row)) {
    Row found;
    std::memcpy(found.data(), source + i * kWordBytes, sizeof found);
    for (size_t k = 0; k < kRowWords; ++k) differences[k] |= found[k] ^ row[k];
  }
  for (const uint64_t other : differences) difference |= other;
  for (; i < words; ++i) {
    uint64_t word;
    std::memcpy(&word, source + i * kWordBytes, kWordBytes);
    difference |= word ^ word_at(first + i, seed);
  }
  for (at += words * kWordBytes; at < bytes.size(); ++at) {
    difference |= bytes[at] ^ byte_at(position + at, seed);
  }
  return difference == 0;
}

}  // namespace lyre::perf
