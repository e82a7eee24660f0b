#pragma once

#include <cstdint>

#include "libclient/resources.h"
#include "libclient/unforked_fd.h"

/// For the tools of this repository, as stats_segment.h.
namespace lyre::client {

/// Copies of a port's packets. The capture ends with this object, or with its process.
struct PacketCapture {
  UnforkedFd control;       ///< readable when the daemon has ended the capture
  Mapping memory;           ///< channel::CaptureRing[ring_count]
  uint32_t ring_count = 0;  ///< one for each worker
  bool is_refused = false;  ///< the daemon is there, and refuses
};

/// Begins to copy at most `snap_bytes` of each packet of a port of the daemon behind `socket_path`;
/// NULL: as in lyre_context_open(). Needs no context. Thread: any.
/// Fails: a LYRE_E code as lyre_context_open(), with lyre_last_error().
int begin_capture(const char* socket_path, const char* port, uint32_t snap_bytes,
                  PacketCapture& out);

}  // namespace lyre::client
