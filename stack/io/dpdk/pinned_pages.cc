#include "stack/io/dpdk/pinned_pages.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
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
/// Of pagemap: 64 KiB on the stack, for 32 MiB of memory in pages of 4 KiB.
constexpr size_t kEntriesAtATime = 8192;

Error failure(const char* what) {
  const int code = errno;
  return Error{code, std::string(what) + ": " + std::strerror(code)};
}

Error no_memory() { return Error{ENOMEM, "no memory for the addresses of its pages"}; }

}  // namespace

Result<PinnedPages> PinnedPages::pin(const uint8_t* base, size_t bytes, size_t page_bytes,
                                     size_t system_page) {
  const auto begin = reinterpret_cast<uintptr_t>(base);
  if (page_bytes == 0 || page_bytes % system_page != 0 || begin % page_bytes != 0 ||
      bytes % page_bytes != 0) {
    return Error{EINVAL, "only whole pages can be pinned"};
  }
  PinnedPages pages;
  // 128 MiB for 64 GiB in pages of 4 KiB.
  pages.addresses_.reset(new (std::nothrow) uint64_t[bytes / page_bytes]);
  if (pages.addresses_ == nullptr) return no_memory();
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
  const size_t count = (bytes + kBufferBytesMax - 1) / kBufferBytesMax;
  const std::unique_ptr<iovec[]> buffers(new (std::nothrow) iovec[count]);
  if (buffers == nullptr) return no_memory();
  for (size_t i = 0; i < count; ++i) {
    const size_t at = i * kBufferBytesMax;
    buffers[i] = {const_cast<uint8_t*>(base) + at, std::min(bytes - at, kBufferBytesMax)};
  }
  if (syscall(__NR_io_uring_register, ring_, IORING_REGISTER_BUFFERS, buffers.get(), count) != 0) {
    return failure("the memory cannot be pinned");
  }
  return Ok{};
}

Status PinnedPages::resolve(const uint8_t* base, size_t bytes, size_t page_bytes,
                            size_t system_page) {
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (pagemap < 0) return failure("/proc/self/pagemap");
  const size_t begin = reinterpret_cast<uintptr_t>(base) / system_page;
  const size_t count = bytes / system_page;
  std::array<uint64_t, kEntriesAtATime> entries;
  Status found = Ok{};
  for (size_t at = 0; found.ok() && at < count; at += entries.size()) {
    const auto piece = std::span(entries).first(std::min(entries.size(), count - at));
    const auto offset = static_cast<off_t>((begin + at) * sizeof(uint64_t));
    const ssize_t got = pread(pagemap, piece.data(), piece.size_bytes(), offset);
    found = got == static_cast<ssize_t>(piece.size_bytes())
                ? add_addresses(piece, at, page_bytes / system_page, system_page)
                : Error{EIO, "/proc/self/pagemap: too short"};
  }
  close(pagemap);
  return found;
}

/// `entries`: those from number `at` on. `step`: of how many the first one is that of a page.
Status PinnedPages::add_addresses(std::span<const uint64_t> entries, size_t at, size_t step,
                                  size_t system_page) {
  for (size_t i = (step - at % step) % step; i < entries.size(); i += step) {
    const uint64_t frame = entries[i] & kFrameMask;
    if ((entries[i] & kIsPresent) == 0 || frame == 0) {
      return Error{EPERM, "the memory's physical addresses cannot be seen"};
    }
    addresses_[count_++] = frame * system_page;
  }
  return Ok{};
}

}  // namespace lyre::io::dpdk
