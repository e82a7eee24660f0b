#include "stack/io/dpdk/eal.h"

#include <pthread.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "stack/io/dpdk/driver_calls.h"
#include "stack/io/dpdk/eal_arguments.h"
#include "stack/io/dpdk/free_hugepages.h"
#include "stack/io/dpdk/nic_check.h"
#include "stack/io/dpdk/short_sleeps.h"

namespace lyre::io::dpdk {
namespace {

constexpr uint32_t kHeapMiBBase = 96;
constexpr uint32_t kHeapMiBWorker = 32;

std::string& kept_error() {
  static std::string kept;
  return kept;
}

/// One lcore that may run on every CPU of this thread: DPDK neither pins nor reserves a core.
std::string lcores_of(const cpu_set_t& allowed) {
  std::string cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    if (!cpus.empty()) cpus += ',';
    cpus += std::to_string(cpu);
  }
  return "0@(" + cpus + ")";
}

uint32_t heap_mib(const EnvironmentOptions& options) {
  if (options.memory_mib != 0) return options.memory_mib;
  return kHeapMiBBase + kHeapMiBWorker * options.worker_count;
}

Result<AllowedNics> allowed_nics(const EnvironmentOptions& options, bool has_hugepages) {
  AllowedNics nics(dpdk_version());
  for (const std::string& device : options.nics) {
    if (const Status added = nics.add(device); !added.ok()) return added.error();
  }
  if (const Status fit = nics.check_addressing(); !fit.ok()) return fit.error();
  if (const Status known = nics.check_drivers(driver_folder()); !known.ok()) return known.error();
  if (nics.has_vmbus() && !has_hugepages) {
    return Error{ENOMEM,
                 "a NIC on the VMbus needs hugepages of 2 MiB, and none is free: its host reads "
                 "memory by physical addresses"};
  }
  return nics;
}

int init(std::vector<std::string>& args) {
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  return rte_eal_init(static_cast<int>(argv.size()), argv.data());
}

/// When a device on uio is removed, its registers are unmapped: DPDK maps zeros in their place at
/// SIGBUS, and learns of the removal by a uevent. On VFIO the kernel asks before it removes.
/// Errors are logged by DPDK and are not fatal: they matter only when a device is removed.
void await_removals() {
  rte_dev_hotplug_handle_enable();
  rte_dev_event_monitor_start();
}

}  // namespace

Result<EalFacts> start_eal(const EnvironmentOptions& options) {
  EalFacts facts;
  const uint64_t free_mib = options.hugepages == Hugepages::kNo ? 0 : free_hugepages_mib();
  if (options.hugepages == Hugepages::kYes && free_mib == 0) {
    return Error{ENOMEM, lacks_hugepages()};
  }
  const auto nics = allowed_nics(options, free_mib > 0);
  if (!nics.ok()) return nics.error();
  facts.has_hugepages = takes_hugepages(options, nics.value(), free_mib, heap_mib(options));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (pthread_getaffinity_np(pthread_self(), sizeof(allowed), &allowed) != 0) {
    return Error{errno, "the CPU affinity of this thread cannot be read"};
  }
  // Some drivers write to sockets whose peer may have closed: EPIPE is handled, SIGPIPE would kill.
  std::signal(SIGPIPE, SIG_IGN);
  std::vector<std::string> args = eal_arguments(options, nics.value(), facts.has_hugepages,
                                                lcores_of(allowed), heap_mib(options));
  redirect_log(options.log);
  LogQuote said;
  std::optional<ShortSleeps> short_sleeps;
  if (nics.value().empty()) short_sleeps.emplace();
  const int rc = init(args);
  const int reason = rte_errno;
  short_sleeps.reset();
  pthread_setaffinity_np(pthread_self(), sizeof(allowed), &allowed);
  if (rc < 0) {
    return Error{reason, "DPDK does not start: " + said.cause(rte_strerror(reason))};
  }
  kept_error() = said.first_error();
  DriverCalls::await_none_in_delays();
  if (!nics.value().empty()) await_removals();
  facts.uses_physical_addresses = rte_eal_iova_mode() == RTE_IOVA_PA;
  return facts;
}

const std::string& first_error_of_start() { return kept_error(); }

}  // namespace lyre::io::dpdk
