#pragma once

#include <cstdint>

#include "daemon/config/config.h"
#include "stack/base/result.h"

namespace lyre {

/// When the process that comes opens a port of the one that goes.
enum class PortHandover : uint8_t {
  kNone,
  kBefore,   ///< before the other one stops: its driver lets both receive all packets
  kStopped,  ///< when the other one has stopped: two processes would share the packets
  kClosed,   ///< when the other one has closed it: one process can have it
};

/// `free_twice`: PortSet::that_free_twice(). The old process could not go on with what these leave
/// in its packet pools, if the new one failed.
/// Fails: one line that names the port that cannot be handed over.
Status check_ports_can_be_handed_over(const Config& config, uint32_t free_twice);

/// The ports with this handover. Bit n: port n.
uint32_t ports_with(PortHandover handover, const Config& config);

}  // namespace lyre
