#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace lyre::test {

/// Shared anonymous memory, as NCCL's staging memory is.
class SharedMemory {
 public:
  explicit SharedMemory(size_t bytes)
      : bytes_(bytes),
        data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~SharedMemory() { ::munmap(data_, bytes_); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  uint8_t* data() const { return static_cast<uint8_t*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  void* data_;
};

/// Whether the daemon, asked without the plugin, can send such memory from where it lies. It needs
/// capabilities for that.
bool is_direct(const std::string& socket, const SharedMemory& memory);

}  // namespace lyre::test
