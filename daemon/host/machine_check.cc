#include "daemon/host/machine_check.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string>

#include "daemon/host/port_sockets.h"
#include "daemon/host/worker_placement.h"
#include "machine/processors.h"

namespace lyre {
namespace {

std::vector<uint32_t> allowed_processors() {
  std::vector<uint32_t> out;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return out;
  for (uint32_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &cores)) out.push_back(core);
  }
  return out;
}

void check_cores_exist(const Config& config, std::span<const uint32_t> allowed,
                       std::vector<Error>& errors) {
  for (const uint32_t core : config.cores) {
    if (std::binary_search(allowed.begin(), allowed.end(), core)) continue;
    errors.push_back({EINVAL, complaint(config.file, config.cores_line, "workers.cores",
                                        "core " + std::to_string(core) +
                                            " does not exist or cannot be used, allowed: " +
                                            machine::list_of_numbers(allowed))});
  }
}

void check_nics(const Config& config, const machine::NicGuard& guard, std::vector<Error>& errors) {
  for (const PortConfig& port : config.ports) {
    if (port.is_forced) continue;
    const auto loss = guard.loss_with(port.device);
    if (!loss) continue;
    const int code = loss->is_passing ? EBUSY : EPERM;
    errors.push_back({code, complaint(config.file, port.device_line, "port.device",
                                      "'" + port.device + "' of '" + port.name + "' is " +
                                          loss->interface + ", which carries " + loss->carries +
                                          ", allowed: another NIC, or force = true")});
  }
}

}  // namespace

std::vector<Error> check_machine(Config& config, const machine::NicGuard& guard,
                                 const machine::Roots& roots) {
  std::vector<Error> errors;
  const std::vector<uint32_t> allowed = allowed_processors();
  if (allowed.empty()) return {{errno, "no CPU affinity"}};
  check_cores_exist(config, allowed, errors);
  place_workers(config, roots, allowed);
  check_nics(config, guard, errors);
  for (Error& error : check_port_sockets(config)) errors.push_back(std::move(error));
  return errors;
}

}  // namespace lyre
