#pragma once

#include <dirent.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace lyre {

/// Entries of the directory that one sweep looks at: any client may make as many as it likes.
inline constexpr uint32_t kTelemetryEntriesMax = 4096;

/// Removes files of NCCL's plugin from a directory whose processes have ended, as after SIGKILL.
/// The plugin itself removes only those of its own uid. A process holds the lock of its file until
/// it ends. Any client may put files of such names and of any kind there: one that has a size that
/// no version of the plugin uses, or more memory than its size takes, stays, and so does what this
/// process may not read or remove. The file of a process that was killed before it gave its file a
/// size stays, too. It may remove the files of others where the directory is its own. The uid in a
/// name does not matter: it is that of a process in its user namespace, or forged.
/// Thread: that of a process which has nothing that the daemon needs
/// (daemon/host/telemetry_sweeper.h).
class DeadTelemetryRemover {
 public:
  explicit DeadTelemetryRemover(std::string directory) : directory_(std::move(directory)) {}

  /// Looks at the next entries, and returns how many it removed. After the last entry the next
  /// sweep begins with the first one. A link in the directory's place is not followed.
  /// Fails: never; a directory that is not there has no files. Blocks: no open or lock of a file
  /// waits. The removal waits, where no signal ends it, for calls of clients that change the file,
  /// which can last for ever.
  uint32_t sweep();

 private:
  struct Close {
    void operator()(DIR* entries) const { ::closedir(entries); }
  };

  const std::string directory_;
  /// Of the last sweep, where it did not come to the end: a position means nothing for another
  /// open directory. While it is open, its file system cannot be unmounted.
  std::unique_ptr<DIR, Close> entries_;
};

}  // namespace lyre
