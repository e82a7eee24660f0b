#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

namespace lyre::io::dpdk {

inline const size_t kTestPageBytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));

/// A memfd, mapped; a second mapping of it reveals its current pages.
class SharedPages {
 public:
  explicit SharedPages(size_t pages, int protection = PROT_READ | PROT_WRITE)
      : bytes_(pages * kTestPageBytes), fd_(::memfd_create("lyre-test-pages", MFD_CLOEXEC)) {
    if (::ftruncate(fd_, static_cast<off_t>(bytes_)) == 0) data_ = map(protection);
  }
  ~SharedPages() {
    ::munmap(data_, bytes_);
    ::close(fd_);
  }
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;

  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  /// Punches out all pages; the file keeps its size.
  bool punch() const {
    return ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                       static_cast<off_t>(bytes_)) == 0;
  }
  /// Physical addresses of the file's current pages; 0 where one is hidden.
  std::vector<uint64_t> addresses() const {
    uint8_t* other = map(PROT_READ | PROT_WRITE);
    std::vector<uint64_t> out;
    const int pagemap = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    for (size_t at = 0; at < bytes_; at += kTestPageBytes) {
      static_cast<void>(*static_cast<volatile uint8_t*>(other + at));
      uint64_t entry = 0;
      const auto index = reinterpret_cast<uintptr_t>(other + at) / kTestPageBytes;
      const auto where = static_cast<off_t>(index * sizeof entry);
      const bool is_read = ::pread(pagemap, &entry, sizeof entry, where) == sizeof entry;
      out.push_back(is_read ? (entry & ((uint64_t{1} << 55) - 1)) * kTestPageBytes : 0);
    }
    ::close(pagemap);
    ::munmap(other, bytes_);
    return out;
  }
  /// Only root sees physical addresses.
  bool can_be_seen() const { return addresses().front() != 0; }

 private:
  uint8_t* map(int protection) const {
    return static_cast<uint8_t*>(::mmap(nullptr, bytes_, protection, MAP_SHARED, fd_, 0));
  }

  size_t bytes_;
  int fd_;
  uint8_t* data_ = nullptr;
};

}  // namespace lyre::io::dpdk
