#include "daemon/upgrade/port_handover.h"

#include <cerrno>
#include <string>
#include <string_view>

namespace lyre {
namespace {

struct Driver {
  std::string_view name;
  PortHandover handover;
};

/// The kernel takes 20 to 40 ms to close a packet socket and as long to open one: it waits until no
/// CPU can use it any more (synchronize_net() in net/packet/af_packet.c).
constexpr Driver kDrivers[] = {
    {"net_memif", PortHandover::kClosed},
    {"net_af_xdp", PortHandover::kClosed},
    {"net_af_packet", PortHandover::kBefore},
    // A TAP device, and the kernel's addresses and routes on it, end with the last queue.
    {"net_tap", PortHandover::kStopped},
};

PortHandover handover_of(const PortConfig& port) {
  for (const Driver& driver : kDrivers) {
    if (port.device.starts_with(driver.name)) return driver.handover;
  }
  return PortHandover::kNone;
}

}  // namespace

Status check_ports_can_be_handed_over(const Config& config) {
  for (const PortConfig& port : config.ports) {
    if (handover_of(port) != PortHandover::kNone) continue;
    return Error{ENOTSUP, "port '" + port.name + "' (" + port.device +
                              ") cannot be handed over, allowed: ports on net_memif, "
                              "net_af_packet and net_tap; restart the daemon instead"};
  }
  return Ok{};
}

uint32_t ports_with(PortHandover handover, const Config& config) {
  uint32_t ports = 0;
  for (size_t i = 0; i < config.ports.size(); ++i) {
    if (handover_of(config.ports[i]) == handover) ports |= uint32_t{1} << i;
  }
  return ports;
}

}  // namespace lyre
