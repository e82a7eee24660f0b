#include "tools/lyre/failure.h"

#include "libclient/include/lyre/lyre.h"
#include "tools/lyre/printable.h"

namespace lyre::tools {

Failure library_failure(int code) {
  const bool is_daemon_missing = code == LYRE_E_DAEMON || code == LYRE_E_PERMISSION ||
                                 code == LYRE_E_VERSION || code == LYRE_E_EXPELLED;
  // A daemon, which may be any process at a socket that was named, says a part of it.
  return Failure(is_daemon_missing ? kExitNoDaemon : kExitFailure, printable(lyre_last_error()),
                 code);
}

}  // namespace lyre::tools
