#include "daemon/host/worker_placement.h"

#include <algorithm>
#include <set>
#include <vector>

#include "machine/core_choice.h"
#include "machine/processors.h"

namespace lyre {

void place_workers(Config& config, const machine::Roots& roots, std::span<const uint32_t> allowed,
                   uint32_t most, uint32_t least) {
  std::vector<machine::PortDemand> ports;
  for (const PortConfig& port : config.ports) {
    ports.push_back(machine::demand_of(roots, port.device, port.speed_mbps));
  }
  const std::vector<machine::Processor> processors = machine::processors(roots, allowed);
  config.has_chosen_cores = config.has_chosen_cores || config.cores.empty();
  if (config.has_chosen_cores) {
    config.cores = machine::choose_cores(processors, ports, most, least);
  }
  const std::vector<uint32_t> isolated = machine::isolated_processors(roots);
  config.memory_nodes.clear();
  config.other_cores.clear();
  for (const uint32_t core : config.cores) {
    config.memory_nodes.push_back(
        machine::memory_node(ports, machine::node_of_processor(roots, core)));
    config.other_cores.push_back(
        config.leaves_busy_cores ? machine::other_cores(processors, core, config.cores, isolated)
                                 : std::vector<uint32_t>{});
  }
}

std::string placement_text(const Config& config) {
  std::vector<uint32_t> cores = config.cores;
  std::sort(cores.begin(), cores.end());
  const std::set<uint32_t> nodes(config.memory_nodes.begin(), config.memory_nodes.end());
  const std::vector<uint32_t> sorted(nodes.begin(), nodes.end());
  return "workers: " + std::to_string(cores.size()) + ", on core" +
         (cores.size() > 1 ? "s " : " ") + machine::list_of_numbers(cores) +
         "; memory of NUMA node" + (nodes.size() > 1 ? "s " : " ") +
         machine::list_of_numbers(sorted);
}

}  // namespace lyre
