#include "tools/nccl_emulator/shared_pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "tools/nccl_emulator/failure.h"

namespace lyre::nccl_emulator {

SharedPages::SharedPages(size_t bytes) : bytes_(bytes) {
  void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (pages == MAP_FAILED) {
    throw Failure("cannot allocate " + std::to_string(bytes) + " bytes: " + std::strerror(errno));
  }
  data_ = static_cast<uint8_t*>(pages);
}

SharedPages::SharedPages(SharedPages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

SharedPages& SharedPages::operator=(SharedPages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedPages::~SharedPages() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace lyre::nccl_emulator
