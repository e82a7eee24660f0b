#include "daemon/host/machine_check.h"

#include <sched.h>

#include <cerrno>
#include <string>

#include "daemon/host/port_sockets.h"

namespace lyre {
namespace {

std::string core_list(const cpu_set_t& cores) {
  std::string out;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &cores)) continue;
    int last = core;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &cores)) ++last;
    out += (out.empty() ? "" : ", ") + std::to_string(core);
    if (last > core) out += "-" + std::to_string(last);
    core = last;
  }
  return out;
}

uint32_t last_core(const cpu_set_t& cores) {
  int core = CPU_SETSIZE - 1;
  while (core > 0 && !CPU_ISSET(core, &cores)) --core;
  return static_cast<uint32_t>(core);
}

void check_cores_exist(Config& config, std::vector<Error>& errors) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) {
    return errors.push_back({errno, "no CPU affinity"});
  }
  if (config.cores.empty()) config.cores.push_back(last_core(cores));
  for (const uint32_t core : config.cores) {
    if (core < CPU_SETSIZE && CPU_ISSET(core, &cores)) continue;
    errors.push_back(
        {EINVAL, complaint(config.file, config.cores_line, "workers.cores",
                           "core " + std::to_string(core) +
                               " is not there or not ours, allowed: " + core_list(cores))});
  }
}

void check_nics(const Config& config, const machine::NicGuard& guard, std::vector<Error>& errors) {
  for (const PortConfig& port : config.ports) {
    if (port.is_forced) continue;
    const auto loss = guard.loss_with(port.device);
    if (!loss) continue;
    errors.push_back({EPERM, complaint(config.file, port.line, "port.device",
                                       "'" + port.device + "' of '" + port.name + "' is " +
                                           loss->interface + ", which carries " + loss->carries +
                                           ", allowed: another NIC, or force = true")});
  }
}

}  // namespace

std::vector<Error> check_machine(Config& config, const machine::NicGuard& guard) {
  std::vector<Error> errors;
  check_cores_exist(config, errors);
  check_nics(config, guard, errors);
  for (Error& error : check_port_sockets(config)) errors.push_back(std::move(error));
  return errors;
}

}  // namespace lyre
