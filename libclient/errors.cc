#include "libclient/errors.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "libclient/client_mark.h"
#include "libclient/include/lyre/lyre.h"
#include "stack/channel/abi.h"
#include "stack/channel/control.h"

namespace lyre::client {
namespace {

/// lyre_version() points into it: no linker leaves it out.
constexpr ClientMark kMark{
    .magic = {'L', 'Y', 'R', 'E', '-', 'C', 'L', 'I', 'E', 'N', 'T', '-', 'M', 'A', 'R', 'K'},
    .control = channel::kControlVersions,
    .abi = channel::kAbiVersions,
    .release = LYRE_VERSION};

thread_local char t_line[320];
thread_local const char* t_text = "no failure";

}  // namespace

int fail(int code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(t_line, sizeof t_line, format, arguments);
  va_end(arguments);
  t_text = t_line;
  return code;
}

int fail_errno(int code, const char* what) {
  const int number = errno;
  char reason[128] = "";
  return fail(code, "%s: %s", what, strerror_r(number, reason, sizeof reason));
}

namespace {

int fail_out_of_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return fail(LYRE_E_DESCRIPTORS,
              "this process has no room for the descriptors of a context: it may have %llu files "
              "open (see `ulimit -n`)",
              static_cast<unsigned long long>(limit.rlim_cur));
}

}  // namespace

int fail_for_descriptor(const char* what) {
  return errno == EMFILE ? fail_out_of_descriptors() : fail_errno(LYRE_E_NORESOURCES, what);
}

int fail_unanswered(int patience_ms) {
  const int tenths = (patience_ms + 50) / 100;
  return fail(LYRE_E_DAEMON, "the daemon did not answer within %g seconds", tenths / 10.0);
}

int fail_static(int code, const char* text) {
  t_text = text;
  return code;
}

}  // namespace lyre::client

const lyre::client::ClientMark& lyre::client::own_mark() { return kMark; }

const char* lyre_last_error(void) { return lyre::client::t_text; }

const char* lyre_version(void) { return lyre::client::kMark.release; }

const char* lyre_strerror(int code) {
  switch (code) {
    case 0:
      return "no error";
    case LYRE_E_RESET:
      return "the peer reset the connection";
    case LYRE_E_REFUSED:
      return "connection refused: the peer has no listener on that port";
    case LYRE_E_TIMEDOUT:
      return "the peer did not answer in time";
    case LYRE_E_UNREACHABLE:
      return "the peer cannot be reached: no route, no answer to ARP or NDP, an ICMP error, or not "
             "allowed to this client";
    case LYRE_E_ADDRINUSE:
      return "the port is in use: by a listener or, when connecting, every local port tried";
    case LYRE_E_ADDRNOTAVAIL:
      return "not an address of the daemon's ports";
    case LYRE_E_NORESOURCES:
      return "the daemon has no session, memory or port left";
    case LYRE_E_ABORTED:
      return "this side aborted the connection";
    case LYRE_E_SHUTDOWN:
      return "the daemon is stopping";
    case LYRE_E_DEREGISTERED:
      return "memory was deregistered before the peer had acknowledged it";
    case LYRE_E_AGAIN:
      return "not now: poll, then try again";
    case LYRE_E_INVALID:
      return "an argument is wrong";
    case LYRE_E_DAEMON:
      return "no daemon there, it died, did not answer, or takes no client now";
    case LYRE_E_PERMISSION:
      return "this user may not open the daemon's socket, or is no member of its domain";
    case LYRE_E_VERSION:
      return "daemon and library speak different versions";
    case LYRE_E_NOTCONNECTED:
      return "the handshake is not finished, or sending was shut down";
    case LYRE_E_EXPELLED:
      return "the daemon disconnected this client for breaking a rule";
    case LYRE_E_DESCRIPTORS:
      return "this process may have no more descriptors: see `ulimit -n`";
    default:
      return "unknown error";
  }
}
