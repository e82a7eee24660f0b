#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "stack/base/result.h"

namespace lyre::io::dpdk {

enum class PageKind : uint8_t {
  kAny,      ///< hugetlb if available, else ordinary pages
  kHuge,     ///< hugetlb only: physical addresses must not change
  kOrdinary  ///< pages of the system's size
};

/// A mapped memfd whose pages are all allocated at creation. It is left out of a core: packets have
/// what clients send.
/// Owner: unmaps and closes it when destroyed.
class PageMemory {
 public:
  /// Fails: no memory of that kind; the text contains the size that was asked for.
  static Result<PageMemory> map(const char* name, size_t bytes, PageKind kind);

  PageMemory() = default;
  PageMemory(PageMemory&& other) noexcept { swap(other); }
  PageMemory& operator=(PageMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PageMemory();

  /// Seals the memfd against writable mappings and changes of its size. Without a seal a read-only
  /// descriptor of a memfd can be opened for writing again through /proc.
  Status seal() const;

  uint8_t* base() const { return base_; }
  size_t bytes() const { return bytes_; }
  size_t page_bytes() const { return page_bytes_; }
  int fd() const { return fd_; }

 private:
  void swap(PageMemory& other) {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    std::swap(page_bytes_, other.page_bytes_);
    std::swap(fd_, other.fd_);
  }
  static bool try_map(PageMemory& out, const char* name, size_t bytes, bool is_huge);

  uint8_t* base_ = nullptr;
  size_t bytes_ = 0;
  size_t page_bytes_ = 0;
  int fd_ = -1;
};

}  // namespace lyre::io::dpdk
