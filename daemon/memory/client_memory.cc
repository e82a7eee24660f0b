#include "daemon/memory/client_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "daemon/base/daemon_limits.h"
#include "daemon/base/errno_error.h"

namespace lyre {
namespace {

Status check_extent(const ClientMemory& memory) {
  struct stat facts {};
  if (::fstat(memory.file.get(), &facts) != 0) return errno_error("cannot look at the memory");
  const auto file_bytes = static_cast<uint64_t>(facts.st_size);
  if (memory.bytes == 0 || memory.bytes % memory.page_bytes != 0 ||
      memory.offset % memory.page_bytes != 0) {
    return Error{EINVAL, "not whole pages of " + std::to_string(memory.page_bytes) + " bytes"};
  }
  if (memory.offset > file_bytes || memory.bytes > file_bytes - memory.offset) {
    return Error{EINVAL, "the memory is shorter than that"};
  }
  return Ok{};
}

Result<uint64_t> page_bytes_of(int file, uint64_t system_page) {
  struct statfs facts {};
  if (::fstatfs(file, &facts) != 0) return errno_error("cannot look at the memory");
  if (facts.f_type == TMPFS_MAGIC) return system_page;
  if (facts.f_type == HUGETLBFS_MAGIC) return static_cast<uint64_t>(facts.f_bsize);
  return Error{EINVAL, "neither tmpfs nor hugetlbfs"};
}

}  // namespace

bool is_memory_file(int file) { return ::fcntl(file, F_GET_SEALS) >= 0; }

bool is_freed_at_once(int file) {
  constexpr uint64_t kBlockBytes = 512;  // stat(2)
  struct stat facts {};
  return ::fstat(file, &facts) == 0 &&
         static_cast<uint64_t>(facts.st_blocks) * kBlockBytes <= kMapAtOnceBytesMax;
}

Result<ClientMemory> memory_of_file(OwnedFd& file, uint64_t offset, uint64_t bytes,
                                    uint64_t system_page) {
  const auto page_bytes = page_bytes_of(file.get(), system_page);
  if (!page_bytes.ok()) return page_bytes.error();
  ClientMemory memory{std::move(file), offset, bytes, page_bytes.value()};
  if (Status extent = check_extent(memory); !extent.ok()) {
    file = std::move(memory.file);
    return extent.error();
  }
  return memory;
}

}  // namespace lyre
