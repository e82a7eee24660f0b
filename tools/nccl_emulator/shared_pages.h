#pragma once

#include <cstddef>
#include <cstdint>

namespace lyre::nccl_emulator {

/// Shared anonymous pages, all of them present: the kind of memory that cudaHostAlloc gives.
class SharedPages {
 public:
  SharedPages() = default;
  /// Fails: throws Failure.
  explicit SharedPages(size_t bytes);
  SharedPages(SharedPages&& other) noexcept;
  SharedPages& operator=(SharedPages&& other) noexcept;
  ~SharedPages();

  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace lyre::nccl_emulator
