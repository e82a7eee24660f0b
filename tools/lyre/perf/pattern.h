#pragma once

#include <cstdint>
#include <span>

/// Bytes that depend on a seed and on their position in the stream: 64-bit words in arithmetic
/// progression, little endian. They are written and compared at memory speed.
namespace lyre::perf {

/// Fills `out` with the pattern's bytes from `position` on.
void fill_pattern(std::span<uint8_t> out, uint64_t position, uint64_t seed);
/// True when `bytes` are the pattern's from `position` on. Every byte is compared.
bool is_pattern(std::span<const uint8_t> bytes, uint64_t position, uint64_t seed);

}  // namespace lyre::perf
