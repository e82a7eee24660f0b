#pragma once

#include <unistd.h>

#include <cstdint>

namespace lyre {

/// The size of an ordinary page of this system: 4 KiB on x86, 4 to 64 KiB on arm64. A power of two.
inline uint64_t system_page_bytes() {
  static const auto bytes = static_cast<uint64_t>(::getpagesize());
  return bytes;
}

/// `bytes` rounded up to whole pages. REQUIRES: `page_bytes` is a power of two.
constexpr uint64_t whole_pages(uint64_t bytes, uint64_t page_bytes) {
  return (bytes + page_bytes - 1) & ~(page_bytes - 1);
}

}  // namespace lyre
