#include "libclient/packet_capture.h"

#include "libclient/attach.h"
#include "libclient/errors.h"
#include "libclient/include/lyre/lyre.h"
#include "stack/channel/capture.h"

namespace lyre::client {

int begin_capture(const char* socket_path, const char* port, uint32_t snap_bytes,
                  PacketCapture& out) {
  UniqueFd descriptor;
  channel::CaptureReply reply{};
  const int code = ask_capture(socket_path_or_default(socket_path), port, snap_bytes, out.control,
                               descriptor, reply);
  out.is_refused = reply.error != 0;
  if (code != 0) return code;
  const uint64_t bytes = uint64_t{reply.ring_count} * sizeof(channel::CaptureRing);
  if (!out.memory.map(descriptor.get(), bytes, PROT_READ | PROT_WRITE)) {
    return fail_errno(LYRE_E_NORESOURCES, "cannot map the capture");
  }
  out.ring_count = reply.ring_count;
  return 0;
}

}  // namespace lyre::client
