#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <type_traits>

#include "stack/base/check.h"

namespace lyre {

/// A fixed number of T whose bytes are zero, in a mapping of their own. A page takes memory when it
/// is first written, from the NUMA node of the thread that writes.
/// Owner: the mapping is made once, at construction. Thread: as the items.
template <typename T>
class MappedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  /// REQUIRES: count > 0.
  explicit MappedArray(size_t count) : bytes_(count * sizeof(T)) {
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    LYRE_CHECK(memory_ != MAP_FAILED);  // at the start: the count is configured
  }
  ~MappedArray() { ::munmap(memory_, bytes_); }
  MappedArray(const MappedArray&) = delete;
  MappedArray& operator=(const MappedArray&) = delete;

  T* data() const { return static_cast<T*>(memory_); }

 private:
  const size_t bytes_;
  void* memory_ = nullptr;
};

}  // namespace lyre
