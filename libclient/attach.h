#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libclient/resources.h"
#include "libclient/unforked_fd.h"
#include "stack/channel/control.h"

/// Requests on the daemon's control socket. Each function returns 0 or a LYRE_E code, with the
/// details in lyre_last_error(), within two seconds, unless its comment says otherwise. Those that
/// connect ask again where the daemon hangs up before it says anything, as one that is replaced in
/// an upgrade: another one listens there then, or none, which is an error at once.
namespace lyre::client {

/// A connection to a daemon. A child of fork() does not have it: the daemon would take a child that
/// lives longer than its parent for the client.
struct ControlSocket {
  UnforkedFd fd;
  std::string path;  ///< where the daemon listens
};

/// The daemon's answer to an attach, with its descriptors, not checked yet.
struct Attachment {
  ControlSocket control;
  channel::AttachReply reply;
  std::vector<UniqueFd> descriptors;
};

/// `path` if not NULL, else $LYRE_SOCKET, else the usual place. Borrows.
const char* socket_path_or_default(const char* path);

/// What a context is to be. Borrows.
struct AttachOptions {
  const char* path;
  const char* label;
  uint64_t arena_bytes;
  int patience_ms;  ///< for a daemon that is there and does not answer, or hangs up
};

/// Within `patience_ms`.
int attach(const AttachOptions& options, Attachment& out);

/// Asks about registered memory on the socket of a context, with a descriptor or -1. 0 also when
/// the daemon refuses: see reply.error. Waits up to a minute for a daemon that does not hang up: it
/// may be in the middle of an upgrade, and the sessions of the context go on. Waits as
/// SilentDaemons says where it did not answer this process before.
/// Fails: LYRE_E_EXPELLED with the daemon's reason, LYRE_E_DAEMON, LYRE_E_VERSION.
int ask_region(const ControlSocket& control, std::span<const uint8_t> request, int descriptor,
               channel::RegionReply& reply);

/// Asks for the packets of a port (CaptureRequest). `descriptor` is the memory of the rings, and
/// the capture ends with `control`. `reply` is set where the daemon answered, whatever it answered.
int ask_capture(const char* path, const char* port, uint32_t snap_bytes, UnforkedFd& control,
                UniqueFd& descriptor, channel::CaptureReply& reply);

/// Asks for the stats segment. `descriptor` is its memory of `stats_bytes`.
int ask_info(const char* path, UniqueFd& descriptor, uint64_t& stats_bytes);

/// Asks the daemon for an upgrade. Returns when the new process serves, or the old one goes on:
/// within 180 seconds. Asks again only where the daemon did not read the request: one that ended in
/// the upgrade that it was asked for is not asked for a second one.
int ask_upgrade(const char* path, channel::UpgradeReply& reply);

}  // namespace lyre::client
