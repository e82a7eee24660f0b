#include "stack/io/dpdk/page_memory.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "stack/base/huge_map.h"
#include "stack/base/page_size.h"

namespace lyre::io::dpdk {
bool PageMemory::try_map(PageMemory& out, const char* name, size_t bytes, bool is_huge) {
  const unsigned huge_flags = is_huge ? MFD_HUGETLB | MFD_HUGE_2MB : 0;
  PageMemory made;
  made.page_bytes_ = is_huge ? kHugePageBytes : system_page_bytes();
  made.bytes_ = whole_pages(bytes, made.page_bytes_);
  made.fd_ = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | huge_flags);
  if (made.fd_ < 0 || ftruncate(made.fd_, static_cast<off_t>(made.bytes_)) != 0) return false;
  void* base = map_huge_aligned(made.bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, made.fd_);
  if (base == MAP_FAILED) return false;
  made.base_ = static_cast<uint8_t*>(base);
  static_cast<void>(madvise(base, made.bytes_, MADV_DONTDUMP));
  // Populated now: a page fault on the packet path would be a system call, or a SIGBUS when no page
  // is left.
  if (madvise(base, made.bytes_, MADV_POPULATE_WRITE) != 0) return false;
  out = std::move(made);
  return true;
}

Result<PageMemory> PageMemory::map(const char* name, size_t bytes, PageKind kind) {
  PageMemory memory;
  if (kind != PageKind::kOrdinary && try_map(memory, name, bytes, true)) return memory;
  if (kind != PageKind::kHuge && try_map(memory, name, bytes, false)) return memory;
  const int reason = errno;
  return Error{reason, std::string(name) + ": cannot take " + std::to_string(bytes >> 10) +
                           " KiB of " +
                           (kind == PageKind::kHuge ? "hugepages of 2 MiB" : "memory")};
}

PageMemory::~PageMemory() {
  if (base_ != nullptr) munmap(base_, bytes_);
  if (fd_ >= 0) close(fd_);
}

Status PageMemory::seal() const {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  if (fcntl(fd_, F_ADD_SEALS, kSeals) != 0) {
    return Error{errno, "the receive pool cannot be sealed; a kernel of 5.1 or later is needed"};
  }
  return Ok{};
}

}  // namespace lyre::io::dpdk
