#include "nccl_adapter/plugin/properties.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "nccl_adapter/observe/log.h"

namespace lyre::nccl_adapter {
namespace {

// What NCCL's own sockets assume where the speed is unknown.
constexpr int32_t kSpeedMbpsUnknown = 10'000;

struct KnownPorts {
  std::mutex mutex;
  std::vector<Properties> list;
  size_t first_count = 0;
  std::set<std::string> texts;  // NCCL keeps the pointers for ever
};

// Never destroyed: NCCL may ask while the process already runs its exit handlers.
KnownPorts& known_ports() {
  static KnownPorts& known = *new KnownPorts;
  return known;
}

struct Rail {
  Location location;
  uint32_t speed_mbps;
};

std::vector<Rail> rails_of(const std::vector<lyre_port>& ports,
                           const std::vector<VerbsPort>& verbs) {
  std::vector<Rail> rails;
  std::vector<Location> locations;
  for (const lyre_port& port : ports) {
    locations.push_back(location_of(port));
    rails.push_back({locations.back(), port.speed_mbps});
  }
  std::vector<Location> devices;
  for (const VerbsPort& port : verbs) devices.push_back(port.location);
  if (rails.empty()) return rails;
  const std::vector<size_t> dealt = deal(devices, locations);
  for (size_t i = 0; i < verbs.size(); ++i) {
    Rail& rail = rails[dealt[i]];
    rail.speed_mbps = std::max(rail.speed_mbps, verbs[i].speed_mbps);
    if (rail.location.pci_path.empty()) rail.location = verbs[i].location;
  }
  return rails;
}

uint64_t guid_of(const lyre_port& port) {
  uint64_t guid = 0;
  for (const uint8_t byte : port.mac) guid = guid << 8 | byte;
  return guid;
}

}  // namespace

void set_known_ports(const std::vector<lyre_port>& ports, const std::vector<VerbsPort>& verbs,
                     int64_t latency_us) {
  const std::vector<Rail> rails = rails_of(ports, verbs);
  KnownPorts& known = known_ports();
  const std::lock_guard lock(known.mutex);
  if (known.first_count == 0 || ports.empty()) known.first_count = ports.size();
  known.list.clear();
  for (size_t i = 0; i < ports.size(); ++i) {
    const lyre_port& port = ports[i];
    const std::string name(port.name, strnlen(port.name, sizeof(port.name)));
    const std::string& path = rails[i].location.pci_path;
    Properties properties{};
    properties.name = known.texts.insert(name).first->c_str();
    if (!path.empty()) properties.pci_path = known.texts.insert(path).first->c_str();
    properties.guid = guid_of(port);
    properties.speed_mbps =
        rails[i].speed_mbps == 0 ? kSpeedMbpsUnknown : static_cast<int32_t>(rails[i].speed_mbps);
    properties.latency_us = static_cast<float>(latency_us);
    known.list.push_back(properties);
  }
}

int known_port_count() {
  KnownPorts& known = known_ports();
  const std::lock_guard lock(known.mutex);
  return static_cast<int>(known.list.size());
}

int first_port_count() {
  KnownPorts& known = known_ports();
  const std::lock_guard lock(known.mutex);
  return static_cast<int>(known.first_count);
}

void forget_first_port_count() {
  KnownPorts& known = known_ports();
  const std::lock_guard lock(known.mutex);
  known.first_count = 0;
}

void count_known_ports() {
  KnownPorts& known = known_ports();
  const std::lock_guard lock(known.mutex);
  if (known.first_count == 0) known.first_count = known.list.size();
}

bool known_properties(int dev, Properties* out) {
  KnownPorts& known = known_ports();
  const std::lock_guard lock(known.mutex);
  if (dev < 0 || static_cast<size_t>(dev) >= known.list.size()) {
    log_warn("device %d does not exist: number of devices: %zu", dev, known.list.size());
    return false;
  }
  *out = known.list[static_cast<size_t>(dev)];
  return true;
}

}  // namespace lyre::nccl_adapter
