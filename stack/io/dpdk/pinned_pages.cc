#include "stack/io/dpdk/pinned_pages.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace lyre::io::dpdk {
namespace {

/// The kernel holds the lock of this process's mappings while it pins one buffer, and other threads
/// that map memory wait for it. A buffer has at most 1 GiB, and a ring at most 16384 buffers
/// (io_uring_register(2), IORING_REGISTER_BUFFERS).
constexpr size_t kBufferBytesMax = size_t{64} << 20;
/// Bits of an entry of /proc/PID/pagemap (proc_pid_pagemap(5)).
constexpr uint64_t kIsPresent = uint64_t{1} << 63;
constexpr uint64_t kFrameMask = (uint64_t{1} << 55) - 1;

Error failure(const char* what) {
  const int code = errno;
  return Error{code, std::string(what) + ": " + std::strerror(code)};
}

}  // namespace

Result<PinnedPages> PinnedPages::pin(const uint8_t* base, size_t bytes, size_t page_bytes,
                                     size_t system_page) {
  const auto begin = reinterpret_cast<uintptr_t>(base);
  if (page_bytes == 0 || page_bytes % system_page != 0 || begin % page_bytes != 0 ||
      bytes % page_bytes != 0) {
    return Error{EINVAL, "only whole pages can be pinned"};
  }
  PinnedPages pages;
  if (Status taken = pages.take(base, bytes); !taken.ok()) return taken.error();
  // The addresses are read after pinning, so each entry is a pinned page or absent. Absent means
  // that the client punched a hole; no thread of this process touches the memory, so no new page
  // appears.
  if (Status found = pages.resolve(base, bytes, page_bytes, system_page); !found.ok())
    return found.error();
  return pages;
}

PinnedPages::~PinnedPages() {
  if (ring_ >= 0) close(ring_);
}

Status PinnedPages::take(const uint8_t* base, size_t bytes) {
  io_uring_params parameters{};
  ring_ = static_cast<int>(syscall(__NR_io_uring_setup, 1, &parameters));
  if (ring_ < 0) return failure("no io_uring to pin memory with");
  std::vector<iovec> buffers;
  for (size_t at = 0; at < bytes; at += kBufferBytesMax) {
    buffers.push_back({const_cast<uint8_t*>(base) + at, std::min(bytes - at, kBufferBytesMax)});
  }
  if (syscall(__NR_io_uring_register, ring_, IORING_REGISTER_BUFFERS, buffers.data(),
              buffers.size()) != 0) {
    return failure("the memory cannot be pinned");
  }
  return Ok{};
}

Status PinnedPages::resolve(const uint8_t* base, size_t bytes, size_t page_bytes,
                            size_t system_page) {
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (pagemap < 0) return failure("/proc/self/pagemap");
  std::vector<uint64_t> entries(bytes / system_page);
  const size_t wanted = entries.size() * sizeof(uint64_t);
  const auto first = static_cast<off_t>(reinterpret_cast<uintptr_t>(base) / system_page);
  const ssize_t got = pread(pagemap, entries.data(), wanted, first * off_t{sizeof(uint64_t)});
  close(pagemap);
  if (got != static_cast<ssize_t>(wanted)) return Error{EIO, "/proc/self/pagemap: too short"};
  for (size_t i = 0; i < entries.size(); i += page_bytes / system_page) {
    const uint64_t frame = entries[i] & kFrameMask;
    if ((entries[i] & kIsPresent) == 0 || frame == 0) {
      return Error{EPERM, "the memory's physical addresses cannot be seen"};
    }
    addresses_.push_back(frame * system_page);
  }
  return Ok{};
}

}  // namespace lyre::io::dpdk
