#pragma once

#include <cstdint>
#include <string>

/// For the tools of this repository: no client needs it.
namespace lyre::client {

/// The process that goes on in the place of the daemon's.
struct Upgraded {
  int32_t pid = 0;
  uint32_t pause_us = 0;  ///< no worker made a turn for so long
  std::string release;
  bool was_refused = false;  ///< the daemon has answered that it goes on as it was
};

/// Has the daemon behind `socket_path` (NULL: as in lyre_context_open()) start its program again
/// and go on in the new process. Waits for it, 180 seconds at most. Thread: any. Fails:
/// LYRE_E_PERMISSION the caller is neither root nor the daemon's user; else the daemon goes on as
/// it was, and lyre_last_error() says why.
int upgrade_daemon(const char* socket_path, Upgraded& out);

}  // namespace lyre::client
