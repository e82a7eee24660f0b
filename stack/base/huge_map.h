#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace lyre {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

/// mmap() of a shared file at an address where its hugepages can be mapped as such.
/// Fails: MAP_FAILED, errno says why. Owner: the caller unmaps `bytes`.
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
  const uintptr_t end = (aligned + bytes + 4095) & ~uintptr_t{4095};
  if (aligned > start) ::munmap(space, aligned - start);
  if (start + reserved > end) {
    ::munmap(reinterpret_cast<void*>(end), start + reserved - end);
  }
  return mapped;
}

/// Asks the kernel to hold this memory in hugepages from now on, whatever its policy for shared
/// memory says. Best effort: a kernel before 6.1, or one short of memory, leaves it as it is.
inline void collapse_to_huge(void* at, size_t bytes) {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE, younger than the C library's headers
  const size_t whole = bytes / kHugePageBytes * kHugePageBytes;
  if (whole > 0) (void)::madvise(at, whole, kCollapse);
}

}  // namespace lyre
