#include "daemon/host/machine_check.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <span>
#include <string>

#include "daemon/host/port_sockets.h"
#include "daemon/host/worker_placement.h"
#include "machine/processors.h"

namespace lyre {
namespace {

/// The affinity of this thread.
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

/// All that this thread may have in its affinity: the kernel leaves out what the cpuset has not.
std::vector<uint32_t> possible_processors() {
  cpu_set_t before, all;
  if (::sched_getaffinity(0, sizeof before, &before) != 0) return {};
  std::memset(&all, 0xff, sizeof all);
  if (::sched_setaffinity(0, sizeof all, &all) != 0) return allowed_processors();
  std::vector<uint32_t> out = allowed_processors();
  ::sched_setaffinity(0, sizeof before, &before);
  return out;
}

bool has_core(std::span<const uint32_t> ascending, uint32_t core) {
  return std::binary_search(ascending.begin(), ascending.end(), core);
}

std::string affinity_of_all(const machine::Roots& roots) {
  return "CPUAffinity=" + machine::first_line(roots.sys + "/devices/system/cpu/online");
}

void check_cores_exist(const Config& config, const machine::Roots& roots,
                       std::span<const uint32_t> allowed, std::vector<Error>& errors) {
  const std::vector<uint32_t> isolated = machine::isolated_processors(roots);
  for (const uint32_t core : config.cores) {
    if (has_core(allowed, core)) continue;
    const bool is_isolated = has_core(isolated, core);
    std::string text = "core " + std::to_string(core);
    text += is_isolated ? " is isolated and not in the CPU affinity of this process, allowed: "
                        : " does not exist or cannot be used, allowed: ";
    text += machine::list_of_numbers(allowed);
    if (is_isolated) text += ", or " + affinity_of_all(roots) + " in the unit of the service";
    errors.push_back({EINVAL, complaint(config.file, config.cores_line, "workers.cores", text)});
  }
}

void check_nics(const Config& config, const machine::NicGuard& guard, std::vector<Error>& errors) {
  for (const PortConfig& port : config.ports) {
    if (port.is_forced) continue;
    const auto loss = guard.loss_with(port.device);
    if (!loss) continue;
    // A session ends, and DHCP may give another interface the default route later.
    errors.push_back({EBUSY, complaint(config.file, port.lines.of("device"), "port.device",
                                       "'" + port.device + "' of '" + port.name + "' is " +
                                           loss->interface + ", which carries " + loss->carries +
                                           ", allowed: another NIC, or force = true")});
  }
}

std::string packet_socket_interface(const PortConfig& port) {
  const bool is_packet_socket = port.device.starts_with("net_af_packet");
  return is_packet_socket ? machine::device_argument(port.device, "iface") : "";
}

/// A packet socket gets every packet of its interface, and a worker takes those for the addresses
/// of all ports: with two sockets each segment would arrive twice.
void check_packet_sockets(const Config& config, std::vector<Error>& errors) {
  std::map<std::string, std::string> ports;  // by interface
  for (const PortConfig& port : config.ports) {
    const std::string interface = packet_socket_interface(port);
    if (interface.empty()) continue;
    const auto [first, is_new] = ports.emplace(interface, port.name);
    if (is_new) continue;
    errors.push_back(
        {EINVAL, complaint(config.file, port.lines.of("device"), "port.device",
                           "'" + port.device + "' of '" + port.name + "' is on " + interface +
                               ", which the port '" + first->second +
                               "' has, allowed: another interface, or one port with the "
                               "addresses of both")});
  }
}

}  // namespace

std::vector<Error> check_machine(Config& config, const machine::NicGuard& guard,
                                 const machine::Roots& roots, Cores cores) {
  std::vector<Error> errors;
  const std::vector<uint32_t> allowed = allowed_processors();
  if (allowed.empty()) return {{errno, "no CPU affinity"}};
  check_cores_exist(config, roots, cores == Cores::kOfService ? possible_processors() : allowed,
                    errors);
  place_workers(config, roots, allowed);
  check_nics(config, guard, errors);
  check_packet_sockets(config, errors);
  for (Error& error : check_port_sockets(config)) errors.push_back(std::move(error));
  return errors;
}

void limit_workers(Config& config, const machine::Roots& roots, uint32_t least, uint32_t most) {
  const std::vector<uint32_t> allowed = allowed_processors();
  if (!allowed.empty()) place_workers(config, roots, allowed, most, least);
}

std::string affinity_text(const Config& config, const machine::Roots& roots) {
  const std::vector<uint32_t> allowed = allowed_processors();
  std::vector<uint32_t> outside;
  for (const uint32_t core : machine::isolated_processors(roots)) {
    const bool is_of_worker = std::ranges::find(config.cores, core) != config.cores.end();
    if (is_of_worker && !has_core(allowed, core)) outside.push_back(core);
  }
  if (outside.empty()) return "";
  return "isolated cores outside the CPU affinity of this shell: " +
         machine::list_of_numbers(outside) + "; the unit of the service needs " +
         affinity_of_all(roots) + "\n";
}

}  // namespace lyre
