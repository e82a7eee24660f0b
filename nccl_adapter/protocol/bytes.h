#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

/// Little-endian fields of a byte buffer. REQUIRES: the field lies inside.
namespace lyre::nccl_adapter {

template <typename Integer>
void put_le(std::span<uint8_t> out, size_t offset, Integer value) {
  for (size_t i = 0; i < sizeof(Integer); ++i) {
    out[offset + i] = static_cast<uint8_t>(value >> (8 * i));
  }
}

template <typename Integer>
Integer get_le(std::span<const uint8_t> in, size_t offset) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(Integer); ++i) value |= uint64_t{in[offset + i]} << (8 * i);
  return static_cast<Integer>(value);
}

/// Writes `text` into a field of `field_bytes`, cut where it does not fit; the rest is zeros.
inline void put_text(std::span<uint8_t> out, size_t offset, size_t field_bytes,
                     std::string_view text) {
  const size_t bytes = text.size() < field_bytes ? text.size() : field_bytes;
  std::memset(out.data() + offset, 0, field_bytes);
  if (bytes > 0) std::memcpy(out.data() + offset, text.data(), bytes);
}

/// The same for a field that ends with a zero.
template <size_t kBytes>
void copy_text(char (&out)[kBytes], std::string_view text) {
  put_text({reinterpret_cast<uint8_t*>(out), kBytes}, 0, kBytes - 1, text);
}

/// Reads such a field. Bytes that no terminal should see become '?'.
inline std::string get_text(std::span<const uint8_t> in, size_t offset, size_t field_bytes) {
  std::string text;
  for (size_t i = 0; i < field_bytes && in[offset + i] != 0; ++i) {
    const char c = static_cast<char>(in[offset + i]);
    text.push_back(c >= 0x20 && c < 0x7f ? c : '?');
  }
  return text;
}

}  // namespace lyre::nccl_adapter
