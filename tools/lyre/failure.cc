#include "tools/lyre/failure.h"

#include "libclient/include/lyre/lyre.h"
#include "tools/lyre/printable.h"

namespace lyre::tools {
namespace {

int exit_code_of(int code) {
  switch (code) {
    case LYRE_E_VERSION:
      return kExitOtherRelease;
    case LYRE_E_DAEMON:
    case LYRE_E_PERMISSION:
    case LYRE_E_EXPELLED:
      return kExitNoDaemon;
    default:
      return kExitFailure;
  }
}

}  // namespace

Failure library_failure(int code) {
  // A daemon, which may be any process at a socket that was named, says a part of it.
  return Failure(exit_code_of(code), printable(lyre_last_error()), code);
}

}  // namespace lyre::tools
