#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "stack/base/result.h"

namespace lyre::io::dpdk {

/// Shared memory whose pages stay where they are, and the physical addresses of them. An ordinary
/// page moves, and any page is another's soon after its owner punched a hole; a pinned one stays
/// until it is unpinned, whatever becomes of the file and its mappings.
/// Owner: the pages are unpinned when this object ends, or shortly after; their mapping is the
/// caller's.
class PinnedPages {
 public:
  /// Takes all of the memory at once. REQUIRES: whole pages of `page_bytes`, mapped for writing,
  /// which no other thread of this process touches meanwhile.
  /// Fails: the kernel has no io_uring for this process, which is what pins; it refused the memory;
  /// physical addresses are hidden from this process (CAP_SYS_ADMIN shows them).
  static Result<PinnedPages> pin(const uint8_t* base, size_t bytes, size_t page_bytes);

  PinnedPages() = default;
  PinnedPages(PinnedPages&& other) noexcept { swap(other); }
  PinnedPages& operator=(PinnedPages&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PinnedPages();

  /// One for each page, in order. They stay valid when this object is moved.
  std::span<const uint64_t> addresses() const { return addresses_; }

 private:
  void swap(PinnedPages& other) {
    std::swap(ring_, other.ring_);
    std::swap(addresses_, other.addresses_);
  }
  Status take(const uint8_t* base, size_t bytes);
  Status resolve(const uint8_t* base, size_t bytes, size_t page_bytes);

  int ring_ = -1;  ///< an io_uring of which nothing but its registered buffers is used
  std::vector<uint64_t> addresses_;
};

}  // namespace lyre::io::dpdk
