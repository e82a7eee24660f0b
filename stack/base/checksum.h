#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace lyre {

/// The Internet checksum of RFC 1071 as a running sum: data is added in parts. Units: sums are over
/// 16-bit words in memory order; the value of fold() is stored as it is.
class ChecksumSum {
 public:
  /// `bytes` may have an odd length: what follows an odd part is added byte-swapped (RFC 1071 2.B).
  void add(std::span<const uint8_t> bytes) {
    uint64_t sum = 0;
    size_t at = 0;
    for (; at + 8 <= bytes.size(); at += 8) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + at, 8);
      sum += word & 0xffffffffu;
      sum += word >> 32;
    }
    for (; at + 2 <= bytes.size(); at += 2) {
      uint16_t word;
      std::memcpy(&word, bytes.data() + at, 2);
      sum += word;
    }
    if (at < bytes.size()) sum += little_end_byte(bytes[at]);
    const uint16_t piece = fold16(sum);
    sum_ += is_odd_ ? static_cast<uint16_t>((piece << 8) | (piece >> 8)) : piece;
    is_odd_ ^= (bytes.size() & 1) != 0;
  }
  /// Adds one 16-bit value that is given in host order.
  void add_u16(uint16_t host_order) {
    const uint8_t bytes[2] = {static_cast<uint8_t>(host_order >> 8),
                              static_cast<uint8_t>(host_order)};
    add(bytes);
  }
  /// The folded sum, not complemented: the initial field value that checksum offload expects.
  uint16_t fold() const { return fold16(sum_); }
  /// The checksum to store, in memory order.
  uint16_t finish() const { return static_cast<uint16_t>(~fold()); }

 private:
  static uint16_t little_end_byte(uint8_t byte) {
    const uint8_t padded[2] = {byte, 0};
    uint16_t word;
    std::memcpy(&word, padded, 2);
    return word;
  }
  static uint16_t fold16(uint64_t sum) {
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<uint16_t>(sum);
  }
  uint64_t sum_ = 0;
  bool is_odd_ = false;
};

}  // namespace lyre
