#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tools/lyre/perf/stream.h"

namespace lyre::perf {

/// Collects the next bytes of a stream, which may arrive in pieces, into one buffer.
template <size_t kBytesMax>
class Collector {
 public:
  /// Takes available bytes. True when `wanted` bytes have been collected.
  bool collect(Stream& stream, size_t wanted) {
    while (size_ < wanted) {
      const std::span<const uint8_t> bytes = stream.peek();
      if (bytes.empty()) return false;
      const size_t count = std::min(bytes.size(), wanted - size_);
      std::copy_n(bytes.begin(), count, bytes_.begin() + static_cast<ptrdiff_t>(size_));
      stream.consume(count);
      size_ += count;
    }
    return true;
  }
  std::span<const uint8_t> bytes() const { return {bytes_.data(), size_}; }
  void clear() { size_ = 0; }

 private:
  std::array<uint8_t, kBytesMax> bytes_{};
  size_t size_ = 0;
};

}  // namespace lyre::perf
