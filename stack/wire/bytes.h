#pragma once

#include <cstdint>
#include <cstring>

namespace lyre::wire {

/// Big-endian values at any alignment. REQUIRES: the bytes lie inside a checked span.
inline uint16_t read_be16(const uint8_t* at) { return static_cast<uint16_t>((at[0] << 8) | at[1]); }
inline uint32_t read_be32(const uint8_t* at) {
  return (uint32_t{at[0]} << 24) | (uint32_t{at[1]} << 16) | (uint32_t{at[2]} << 8) |
         uint32_t{at[3]};
}
inline void write_be16(uint8_t* at, uint16_t value) {
  at[0] = static_cast<uint8_t>(value >> 8);
  at[1] = static_cast<uint8_t>(value);
}
inline void write_be32(uint8_t* at, uint32_t value) {
  write_be16(at, static_cast<uint16_t>(value >> 16));
  write_be16(at + 2, static_cast<uint16_t>(value));
}

/// A value that is already in memory order: a checksum field.
inline uint16_t read_raw16(const uint8_t* at) {
  uint16_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
inline void write_raw16(uint8_t* at, uint16_t value) { std::memcpy(at, &value, sizeof value); }

}  // namespace lyre::wire
