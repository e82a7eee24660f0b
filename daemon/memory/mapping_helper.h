#pragma once

#include <string>

#include "daemon/base/owned_fd.h"
#include "daemon/host/capabilities.h"
#include "daemon/memory/client_mapping.h"

namespace lyre {

/// What the helper keeps: opening map_files, of processes of other users, in their directories.
inline constexpr Capabilities kMappingHelperCapabilities = capability(CAP_CHECKPOINT_RESTORE) |
                                                           capability(CAP_SYS_PTRACE) |
                                                           capability(CAP_DAC_READ_SEARCH);

/// The whole life of the memory helper, a process of its own that opens shared anonymous memory of
/// clients for the daemon, so that the process that parses packets needs no capability for it. It
/// says its release, answers each request with a MappingReply, and ends when the other end of
/// `socket` is closed. It closes a client's connection before the daemon has the answer, and so
/// never last. A process of its own carries out each request by `open` and is ended after a second:
/// a client can keep its mappings locked for as long as it likes. Asked to be replaced, it answers
/// what it has begun and executes `program`, an absolute path or empty; where that fails it goes
/// on. REQUIRES: a new process of one thread. Closes every other descriptor but standard error.
[[noreturn]] void run_mapping_helper(OwnedFd socket, MappingOpen open, const std::string& program);

}  // namespace lyre
