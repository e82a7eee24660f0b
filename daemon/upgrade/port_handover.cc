#include "daemon/upgrade/port_handover.h"

#include <algorithm>
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

/// The device without its arguments: "net_memif0", "0000:00:06.0".
std::string_view name_of(std::string_view device) { return device.substr(0, device.find(',')); }

/// DPDK opens a NIC on the VMbus only when it starts: the other process has it then.
bool is_on_vmbus(std::string_view device) { return device.starts_with("vmbus:"); }
bool is_virtual(std::string_view device) { return device.starts_with("net_"); }

PortHandover handover_of(const PortConfig& port) {
  for (const Driver& driver : kDrivers) {
    if (port.device.starts_with(driver.name)) return driver.handover;
  }
  // A NIC on PCI belongs to one process, as VFIO and the NIC's registers do.
  const bool is_pci = !is_virtual(port.device) && !is_on_vmbus(port.device);
  return is_pci ? PortHandover::kClosed : PortHandover::kNone;
}

/// The MANA function of several ports. DPDK closes all that a function has at once.
bool shares_function(const Config& config, const PortConfig& port) {
  const auto has_same_name = [&](const PortConfig& each) {
    return name_of(each.device) == name_of(port.device);
  };
  return !is_virtual(port.device) &&
         std::count_if(config.ports.begin(), config.ports.end(), has_same_name) > 1;
}

/// Null: it can be.
const char* why_not_handed_over(const Config& config, const PortConfig& port, bool frees_twice) {
  if (handover_of(port) == PortHandover::kNone) {
    return is_on_vmbus(port.device) ? "DPDK opens it only when it starts" : "its driver is unknown";
  }
  if (shares_function(config, port)) return "another port is on the same PCI function";
  return frees_twice ? "its driver frees packets twice when it closes" : nullptr;
}

}  // namespace

Status check_ports_can_be_handed_over(const Config& config, uint32_t free_twice) {
  for (size_t i = 0; i < config.ports.size(); ++i) {
    const PortConfig& port = config.ports[i];
    const bool frees_twice = (free_twice >> i & 1) != 0;
    const char* const why = why_not_handed_over(config, port, frees_twice);
    if (why == nullptr) continue;
    return Error{ENOTSUP, "port '" + port.name + "' (" + port.device +
                              ") cannot be handed over: " + why + "; restart the daemon instead"};
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
