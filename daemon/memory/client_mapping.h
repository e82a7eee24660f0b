#pragma once

#include <cstdint>

#include "daemon/base/owned_fd.h"
#include "daemon/protocol/client_identity.h"
#include "stack/base/result.h"

namespace lyre {

/// A mapping [begin, end) of a process, as an entry of its /proc/PID/maps.
struct ForeignMapping {
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// Opens shared anonymous memory of a client, which has no descriptor, through /proc/PID/map_files.
/// `socket` is the daemon's end of the client's connection, and the only thing that says whose
/// memory may be opened: the caller cannot name a process that did not connect to the daemon.
/// Needs CAP_CHECKPOINT_RESTORE and, for clients of other users, CAP_SYS_PTRACE and
/// CAP_DAC_READ_SEARCH. May wait for the client: its mappings are locked while it changes them.
/// Thread: any. Fails: EPERM not a client's connection, or we may not look, or the process has
/// another user id by now, or may not be inspected (PR_SET_DUMPABLE in prctl(2)); ENOTCONN the
/// client hung up; EINVAL not shared anonymous memory; ESRCH the process is gone.
Result<OwnedFd> open_client_mapping(int socket, const ForeignMapping& mapping);

/// open_client_mapping(), or what a test has in its place.
using MappingOpen = Result<OwnedFd> (*)(int socket, const ForeignMapping& mapping);

/// The part of open_client_mapping() that knows the client. `process` is a pidfd of it: still alive
/// afterwards means that the number meant this process throughout.
Result<OwnedFd> open_mapping_of(const ClientIdentity& client, int process,
                                const ForeignMapping& mapping);

}  // namespace lyre
