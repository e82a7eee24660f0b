#pragma once

#include <cstdint>

#include "daemon/base/owned_fd.h"
#include "stack/base/page_size.h"
#include "stack/base/result.h"

namespace lyre {

/// Memory of a client that the daemon may map: checked, and not mapped yet. The kernel alone
/// provides its pages: a page of a file on a disk, or of a user's file system, could make a worker
/// wait for ever.
struct ClientMemory {
  OwnedFd file;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t page_bytes = 0;
};

/// Whether only this kernel provides the pages of a file: a memfd, or a file of tmpfs or hugetlbfs.
/// A file of another kind, whose operations and close may block, is told without an operation on
/// it.
bool is_memory_file(int file);

/// Whether the last reference to such a file may be dropped here: that frees its pages, some 0.1 s
/// for each GiB.
bool is_freed_at_once(int file);

/// The memory of such a file, which a client passed, or of the object that open_client_mapping()
/// found. Takes `file` if it succeeds. The file may shrink (region_window.h): a seal would wait for
/// its lock, which its client can hold for ever. REQUIRES: is_memory_file(), or such an object.
/// `system_page`: size of the pages of tmpfs.
/// Fails: EINVAL it is neither of tmpfs nor of hugetlbfs, or shorter than asked for, or not whole
/// pages.
Result<ClientMemory> memory_of_file(OwnedFd& file, uint64_t offset, uint64_t bytes,
                                    uint64_t system_page = system_page_bytes());

}  // namespace lyre
