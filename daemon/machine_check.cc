#include "daemon/machine_check.h"

#include <sched.h>

#include <cerrno>
#include <string>

#include "daemon/port_sockets.h"

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

Status check_cores_exist(Config& config) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return Error{errno, "no CPU affinity"};
  if (config.cores.empty()) config.cores.push_back(last_core(cores));
  for (const uint32_t core : config.cores) {
    if (core < CPU_SETSIZE && CPU_ISSET(core, &cores)) continue;
    return Error{EINVAL, complaint(config.file, config.cores_line, "workers.cores",
                                   "core " + std::to_string(core) +
                                       " is not there or not ours, allowed: " + core_list(cores))};
  }
  return Ok{};
}

Status check_ports(const Config& config, const NicGuard& guard) {
  for (const PortConfig& port : config.ports) {
    if (port.is_forced) continue;
    const auto lost = guard.lost_interface(port.device);
    if (!lost) continue;
    return Error{EPERM, complaint(config.file, port.line, "port.device",
                                  "'" + port.device + "' of '" + port.name + "' is " + *lost +
                                      ", which carries this machine's default route, allowed: "
                                      "another NIC, or force = true")};
  }
  return Ok{};
}

}  // namespace

Status check_machine(Config& config, const NicGuard& guard) {
  if (Status status = check_cores_exist(config); !status.ok()) return status;
  if (Status status = check_ports(config, guard); !status.ok()) return status;
  return check_port_sockets(config);
}

}  // namespace lyre
