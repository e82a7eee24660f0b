#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "stack/base/page_size.h"
#include "stack/base/result.h"

namespace lyre::io::dpdk {

/// Shared memory whose pages are pinned, and their physical addresses. The kernel may migrate a
/// page that is not pinned, and reuses it soon after its owner punched a hole. A pinned page stays
/// allocated until it is unpinned, whatever happens to the file and its mappings.
/// Owner: the pages are unpinned when this object is destroyed, or shortly after; the caller owns
/// their mapping.
class PinnedPages {
 public:
  /// Pins all of the memory. REQUIRES: it is mapped for writing, and no other thread of this
  /// process accesses it meanwhile. `system_page`: what one entry of pagemap stands for. Fails:
  /// EINVAL not whole pages of `page_bytes`, or these are no multiple of `system_page`; the kernel
  /// gives this process no io_uring, which does the pinning; it refused the memory; physical
  /// addresses are hidden from this process (CAP_SYS_ADMIN is needed to see them); ENOMEM no memory
  /// for the addresses.
  static Result<PinnedPages> pin(const uint8_t* base, size_t bytes, size_t page_bytes,
                                 size_t system_page = system_page_bytes());

  PinnedPages() = default;
  PinnedPages(PinnedPages&& other) noexcept { swap(other); }
  PinnedPages& operator=(PinnedPages&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PinnedPages();

  /// One address for each page, in order. The span stays valid when this object is moved.
  std::span<const uint64_t> addresses() const { return {addresses_.get(), count_}; }

 private:
  void swap(PinnedPages& other) {
    std::swap(ring_, other.ring_);
    std::swap(addresses_, other.addresses_);
    std::swap(count_, other.count_);
  }
  Status take(const uint8_t* base, size_t bytes);
  Status resolve(const uint8_t* base, size_t bytes, size_t page_bytes, size_t system_page);
  Status add_addresses(std::span<const uint64_t> entries, size_t at, size_t step,
                       size_t system_page);

  int ring_ = -1;  ///< an io_uring; only its registered buffers are used
  std::unique_ptr<uint64_t[]> addresses_;
  size_t count_ = 0;  ///< of addresses_ that are known
};

}  // namespace lyre::io::dpdk
