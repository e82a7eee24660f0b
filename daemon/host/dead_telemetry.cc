#include "daemon/host/dead_telemetry.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

#include "daemon/base/owned_fd.h"
#include "nccl_adapter/abi/telemetry.h"

namespace lyre {
namespace {

/// O_NONBLOCK: otherwise the open of a FIFO, or of a file with a lease, would wait.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

/// What st_blocks counts.
constexpr uint64_t kBlockBytes = 512;
/// What a file system may use for a file besides its data.
constexpr uint64_t kSlackBytes = uint64_t{64} << 10;

/// The removal frees it, which takes time. A client may allocate memory behind the end, too. Where
/// the kernel gives hugepages (the mount option huge=), st_blksize is that of one.
bool is_memory_bounded(const struct stat& status) {
  const uint64_t page_bytes = static_cast<uint64_t>(status.st_blksize);
  return static_cast<uint64_t>(status.st_blocks) * kBlockBytes <=
         static_cast<uint64_t>(status.st_size) + page_bytes + kSlackBytes;
}

/// Of any version: what the file contains does not matter.
bool is_genuine(int fd) {
  struct stat status = {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
         nccl_abi::is_telemetry_size(static_cast<uint64_t>(status.st_size)) &&
         is_memory_bounded(status);
}

/// opendir() would follow a link. nullptr: it cannot be read.
DIR* open_directory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return nullptr;
  DIR* const entries = ::fdopendir(fd);  // takes it
  if (entries == nullptr) ::close(fd);
  return entries;
}

/// The plugin locks a file before it gives it its size: a file with a size and without a lock has
/// no process. Of a file with several links, such as one that a client made of another's file, only
/// this name is removed.
bool remove_if_dead(int directory, const char* name) {
  if (!std::string_view(name).starts_with(nccl_abi::kTelemetryPrefix)) return false;
  const OwnedFd file(::openat(directory, name, kOpenFlags));
  return file.get() >= 0 && is_genuine(file.get()) && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 &&
         ::unlinkat(directory, name, 0) == 0;
}

}  // namespace

uint32_t DeadTelemetryRemover::sweep() {
  if (entries_ == nullptr) entries_.reset(open_directory(directory_));
  uint32_t removed = 0;
  for (uint32_t i = 0; i < kTelemetryEntriesMax && entries_ != nullptr; ++i) {
    const dirent* const entry = ::readdir(entries_.get());
    if (entry == nullptr) {
      entries_.reset();
    } else if (remove_if_dead(::dirfd(entries_.get()), entry->d_name)) {
      ++removed;
    }
  }
  return removed;
}

}  // namespace lyre
