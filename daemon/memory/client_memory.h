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

/// The memory of such a file, which a client passed. It is sealed against shrinking where it can
/// be. Takes `file`. REQUIRES: is_memory_file().
/// `system_page`: size of the pages of tmpfs.
/// Fails: EINVAL it is neither of tmpfs nor of hugetlbfs, or shorter than asked for, or not whole
/// pages.
Result<ClientMemory> memory_of_descriptor(OwnedFd file, uint64_t offset, uint64_t bytes,
                                          uint64_t system_page = system_page_bytes());

/// Shared anonymous memory of the client itself: `object` is what open_client_mapping() found.
/// Takes it. Fails: as memory_of_descriptor().
Result<ClientMemory> memory_of_object(OwnedFd object, uint64_t offset, uint64_t bytes);

}  // namespace lyre
