#pragma once

#include <cstdint>
#include <memory>

#include "stack/base/result.h"
#include "stack/io/packet_io.h"

namespace lyre::io::contract {

struct WireOptions {
  uint32_t mtu_bytes = 1500;
  uint32_t rx_slots = 4096;
  uint32_t tx_packets = 4096;
};

/// Two ends of one wire, 0 and 1, each with a memory and one queue of one port.
/// Thread: one, which the backend has registered.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual PacketMemory& memory(int end) = 0;
  virtual PacketIo& io(int end) = 0;
  /// Lets the backend make progress for a short time.
  virtual void pass_time() = 0;
};

/// Properties of the backend that this executable was built for.
struct Backend {
  const char* name;
  bool is_lossless;  ///< a frame that was taken arrives, if the receiver polls fast enough
  uint32_t mtu_bytes_max;
  bool has_wait_fd;
  bool must_wait = true;           ///< false: whether wait_fd() exists depends on the machine
  bool has_two_of_ours = true;     ///< both ends are ports of the backend under test
  const char* cut = nullptr;       ///< command that takes down the link of end 0; nullptr: none
  bool sends_in_the_call = false;  ///< nothing is held after tx_burst()
  bool lets_go_when_idle = true;   ///< reclaim() releases pieces; else further frames are needed
};
const Backend& backend();

/// Fails: EPERM or ENOTSUP where this machine does not support such a wire; the tests are then
/// skipped.
Result<std::unique_ptr<Wire>> make_wire(const WireOptions& options);

}  // namespace lyre::io::contract
