#pragma once

#include <cstdint>

#include "daemon/owned_fd.h"
#include "stack/base/page_size.h"
#include "stack/base/result.h"

namespace lyre {

/// Whom the kernel says we talk to.
struct ClientIdentity {
  int32_t pid = 0;  ///< 0: of a namespace that we cannot see into
  uint32_t uid = UINT32_MAX;
  uint32_t gid = UINT32_MAX;
};

/// Memory of a client that the daemon may map: checked, and not mapped yet. Memory that the kernel
/// can hand out without asking anybody: a file on a disk or of a user's file system could make a
/// worker wait for ever.
struct ClientMemory {
  OwnedFd file;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t page_bytes = 0;
};

/// What a client's descriptor names: a memfd, or a file of tmpfs or hugetlbfs. It is sealed against
/// shrinking where it can be. Takes `file`.
/// `system_page`: size of the pages of tmpfs.
/// Fails: EINVAL it is something else, not whole pages, or shorter than that.
Result<ClientMemory> memory_of_descriptor(OwnedFd file, uint64_t offset, uint64_t bytes,
                                          uint64_t system_page = system_page_bytes());

/// A mapping [begin, end) of a process, as an entry of its /proc/PID/maps.
struct ForeignMapping {
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// Shared anonymous memory of the client itself, which has no descriptor, through
/// /proc/PID/map_files. `process` is a pidfd of the client: still alive afterwards means that the
/// number meant this process throughout.
/// Fails: EPERM we may not look, or it is not the client's; EINVAL not shared anonymous memory;
/// ESRCH the process is gone.
Result<ClientMemory> memory_of_mapping(const ClientIdentity& client, int process,
                                       const ForeignMapping& mapping, uint64_t offset,
                                       uint64_t bytes);

/// Closes what a stranger gave us (or did not) where nobody waits for it: the file system behind it
/// may take its time.
void close_elsewhere(OwnedFd file);

}  // namespace lyre
