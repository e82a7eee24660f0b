#include "daemon/host/dead_telemetry.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <string_view>

#include "daemon/base/owned_fd.h"
#include "nccl_adapter/abi/telemetry.h"

namespace lyre {
namespace {

/// O_NONBLOCK: otherwise the open of a FIFO, or of a file with a lease, would wait.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

bool is_genuine(int fd, std::string_view name) {
  struct stat status = {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
         static_cast<uint64_t>(status.st_size) == nccl_abi::kTelemetryBytes &&
         name.starts_with(nccl_abi::telemetry_prefix(status.st_uid));
}

/// The plugin locks a file before it gives it its size: a file of that size without a lock has no
/// process.
bool remove_if_dead(int directory, const char* name) {
  if (!std::string_view(name).starts_with(nccl_abi::kTelemetryPrefix)) return false;
  const OwnedFd file(::openat(directory, name, kOpenFlags));
  return file.get() >= 0 && is_genuine(file.get(), name) &&
         ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && ::unlinkat(directory, name, 0) == 0;
}

}  // namespace

uint32_t remove_dead_telemetry(const std::string& directory) {
  DIR* const entries = ::opendir(directory.c_str());
  if (entries == nullptr) return 0;
  uint32_t removed = 0;
  for (uint32_t i = 0; i < kTelemetryEntriesMax; ++i) {
    const dirent* const entry = ::readdir(entries);
    if (entry == nullptr) break;
    if (remove_if_dead(::dirfd(entries), entry->d_name)) ++removed;
  }
  ::closedir(entries);
  return removed;
}

}  // namespace lyre
