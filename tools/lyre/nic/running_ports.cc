#include "tools/lyre/nic/running_ports.h"

#include "tools/lyre/configured.h"
#include "tools/lyre/doctor/daemon_checks.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {

std::vector<std::string> devices_in_use(const std::string& socket, const std::string& config_path) {
  std::vector<std::string> devices;
  try {
    const Snapshot now = StatsSegment(socket.c_str()).look();
    for (const PortSnapshot& port : now.ports) devices.push_back(port.device);
  } catch (const Failure& failure) {
    if (silence_of(failure) != Silence::kAbsent) return configured_devices(config_path);
  }
  return devices;
}

}  // namespace lyre::tools
