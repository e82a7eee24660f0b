#pragma once

#include <cstdint>
#include <string>

namespace lyre {

/// Entries of the directory that one sweep looks at: any client may make as many as it likes.
inline constexpr uint32_t kTelemetryEntriesMax = 4096;

/// Removes files of NCCL's plugin from `directory` whose processes have ended, as after SIGKILL,
/// and returns how many. The plugin itself removes only those of its own uid. A process holds the
/// lock of its file until it ends. Any client may put files of such names and of any kind there:
/// one that is not of the plugin's size, has more memory than that takes, or belongs to another
/// user than its name says, stays, and so does what this process may not read or remove. The file
/// of a plugin version with another size stays, too, and that of a process that was killed before
/// it gave its file a size. It may remove the files of others where the directory is its own. A
/// link in the directory's place is not followed. Fails: never; a directory that is not there has
/// none. Blocks: no open or lock of a file waits. The removal waits, where no signal ends it, for
/// calls of clients that change the file, which can last for ever. Thread: that of a process which
/// has nothing that the daemon needs (daemon/host/telemetry_sweeper.h).
uint32_t remove_dead_telemetry(const std::string& directory);

}  // namespace lyre
