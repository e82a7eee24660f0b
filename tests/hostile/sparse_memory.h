#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

#include "libclient/resources.h"

namespace lyre::test {

/// Memory that costs nothing until it is touched.
class SparseMemory {
 public:
  explicit SparseMemory(size_t bytes)
      : bytes_(bytes), file_(::memfd_create("lyre-sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(bytes)), 0);
    at_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    EXPECT_NE(at_, MAP_FAILED);
  }
  ~SparseMemory() { ::munmap(at_, bytes_); }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;

  int file() const { return file_.get(); }
  const void* data() const { return at_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  client::UniqueFd file_;
  void* at_ = nullptr;
};

}  // namespace lyre::test
