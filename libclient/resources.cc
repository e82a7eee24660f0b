#include "libclient/resources.h"

#include <sys/stat.h>

#include <cerrno>

#include "stack/base/huge_map.h"

namespace lyre::client {

bool Mapping::map(int fd, uint64_t bytes, int protection) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return false;
  if (bytes == 0 || status.st_size < 0 || static_cast<uint64_t>(status.st_size) < bytes) {
    errno = EINVAL;
    return false;
  }
  void* data = map_huge_aligned(bytes, protection, MAP_SHARED, fd);
  if (data == MAP_FAILED) return false;
  // A child of fork() that lives longer than the daemon (a data loader) would keep its hugepages,
  // and the next daemon would have too few.
  static_cast<void>(::madvise(data, bytes, MADV_DONTFORK));
  // A core would have 68 MiB more for each context, and nothing of the program's own.
  static_cast<void>(::madvise(data, bytes, MADV_DONTDUMP));
  data_ = data;
  bytes_ = bytes;
  return true;
}

}  // namespace lyre::client
