#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "stack/base/page_size.h"

namespace lyre {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

/// mmap() of a shared file at an address that is aligned for hugepages. Pages that are touched
/// through this mapping are hugepages where the machine's policy for shared memory follows
/// madvise() (shmem_enabled of transparent_hugepage: advise). They are not collapsed by force:
/// MADV_COLLAPSE waits for a kernel worker on every core, which takes seconds when the cores are
/// busy.
/// Fails: MAP_FAILED, with errno set. Owner: the caller unmaps `bytes`.
inline void* map_huge_aligned(size_t bytes, int protection, int flags, int fd) {
  if (bytes < kHugePageBytes) return ::mmap(nullptr, bytes, protection, flags, fd, 0);
  const size_t reserved = bytes + kHugePageBytes;
  void* space = ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (space == MAP_FAILED) return MAP_FAILED;
  const auto start = reinterpret_cast<uintptr_t>(space);
  const uintptr_t aligned = (start + kHugePageBytes - 1) & ~uintptr_t{kHugePageBytes - 1};
  auto* at = reinterpret_cast<uint8_t*>(aligned);
  void* mapped = ::mmap(at, bytes, protection, flags | MAP_FIXED, fd, 0);
  if (mapped == MAP_FAILED) {
    ::munmap(space, reserved);
    return MAP_FAILED;
  }
  (void)::madvise(mapped, bytes, MADV_HUGEPAGE);
  const uintptr_t end = whole_pages(aligned + bytes, system_page_bytes());
  if (aligned > start) ::munmap(space, aligned - start);
  if (start + reserved > end) {
    ::munmap(reinterpret_cast<void*>(end), start + reserved - end);
  }
  return mapped;
}

}  // namespace lyre
