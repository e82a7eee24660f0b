#include "daemon/host/kernel_queues.h"

#include <charconv>
#include <cstdint>

#include "machine/nic_guard.h"
#include "machine/processors.h"

namespace lyre {
namespace {

/// "queue 0", "queues 1-7".
std::string queues_text(const std::vector<uint32_t>& queues) {
  return (queues.size() == 1 ? "queue " : "queues ") + machine::list_of_numbers(queues);
}

/// A port has a queue for each worker.
std::vector<uint32_t> own_queues(const PortConfig& port, size_t workers) {
  uint32_t first = 0;
  const std::string given = machine::device_argument(port.device, "start_queue");
  std::from_chars(given.data(), given.data() + given.size(), first);
  std::vector<uint32_t> own;
  for (uint32_t i = 0; i < workers; ++i) own.push_back(first + i);
  return own;
}

/// An interface has its queues from 0 on.
std::string remedy(const std::string& interface, const machine::ReceiveQueues& queues,
                   const std::vector<uint32_t>& own) {
  return std::string(own.front() > 0 ? "no start_queue= in its device, and " : "") + "ethtool -L " +
         interface + (queues.combined > 0 ? " combined " : " rx ") + std::to_string(own.size()) +
         (queues.combined > 0 && queues.receive_only > 0 ? " rx 0" : "") +
         ", or flow rules that steer the port's packets (ethtool -N)";
}

}  // namespace

std::vector<std::string> kernel_queues(const Config& config, const QueuesOf& queues_of) {
  std::vector<std::string> lines;
  for (const PortConfig& port : config.ports) {
    if (!port.device.starts_with("net_af_xdp") || config.cores.empty()) continue;
    const std::string interface = machine::device_argument(port.device, "iface");
    const auto queues = queues_of(interface);
    if (!queues) continue;
    const std::vector<uint32_t> own = own_queues(port, config.cores.size());
    const auto others =
        machine::queues_beside(*queues, own.front(), static_cast<uint32_t>(own.size()));
    if (others.empty()) continue;
    lines.push_back("port " + port.name + ": what " + interface + " receives on " +
                    queues_text(others) + " goes to the kernel, as the port has only " +
                    queues_text(own) + ": " + remedy(interface, *queues, own));
  }
  return lines;
}

}  // namespace lyre
