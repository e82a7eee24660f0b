#include "nccl_adapter/plugin/open_instance.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include "nccl_adapter/abi/nccl_settings.h"
#include "nccl_adapter/abi/setting_names.h"
#include "nccl_adapter/daemon_link/system.h"
#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/plugin/contexts.h"
#include "nccl_adapter/plugin/instance_registry.h"
#include "nccl_adapter/plugin/properties.h"
#include "nccl_adapter/transport/address.h"
#include "nccl_adapter/transport/verbs/report.h"

namespace lyre::nccl_adapter {
namespace {

void log_attached(const Instance& instance) {
  std::string ports;
  for (const lyre_port& port : instance.ports()) {
    lyre_addr address{};
    std::copy(std::begin(port.address), std::end(port.address), std::begin(address.address));
    std::string text = to_string(address);
    if (text.ends_with(":0")) text.resize(text.size() - 2);
    ports += ports.empty() ? "" : ", ";
    ports += std::string(port.name) + " " + text;
    if (port.speed_mbps > 0) ports += " " + std::to_string(port.speed_mbps) + " Mb/s";
    if (port.is_link_up == 0) ports += " (link down)";
  }
  log_info("Lyre %s, daemon at %s, ports: %s", lyre_version(),
           socket_path_text(instance.settings()), ports.c_str());
}

/// Init is called for each communicator: most find what the one before has found.
void log_changed(const std::vector<std::string>& lines) {
  static std::mutex& mutex = *new std::mutex;
  static std::vector<std::string>& last = *new std::vector<std::string>;
  const std::lock_guard lock(mutex);
  if (lines == last) return;
  last = lines;
  for (const std::string& line : lines) log_info("%s", line.c_str());
}

/// At each attachment: a port may be up, or down, since the one before. It opens the devices, as a
/// communicator that uses them does once more.
VerbsReport find_verbs(const Settings& settings) {
  std::string why = "LYRE_VERBS=off";
  const VerbsApi* api = settings.verbs == VerbsUse::kOff ? nullptr : load_verbs(&why);
  VerbsReport report = report_verbs(api, why, settings);
  log_changed(report.lines);
  return report;
}

/// Comms of later inits wait for a port that is away.
bool is_possible(const Settings& settings) {
  if (settings.verbs != VerbsUse::kOnly || known_port_count() > 0) return true;
  const std::string why_none = find_verbs(settings).why_none;
  if (why_none.empty()) return true;
  log_warn("LYRE_VERBS=only, and no data can go over RDMA: %s", why_none.c_str());
  return false;
}

/// Once a process, which opens an instance for each communicator.
void warn_of_unknown_settings() {
  static std::atomic<bool> is_mentioned{false};
  if (is_mentioned.exchange(true)) return;
  for (const std::string& line : nccl_abi::unknown_settings(environ)) log_warn("%s", line.c_str());
}

/// How long an init that failed so is tried again. The daemon is perhaps starting, and the socket
/// of one that starts has no group for a moment: LYRE_E_PERMISSION. Otherwise that does not pass. A
/// daemon at its limit on contexts frees those that were finalized a moment ago when its workers
/// have let go of them.
int64_t patience_ns(int failure, const Settings& settings) {
  switch (failure) {
    case LYRE_E_DAEMON:
      return settings.resume_s * kNsPerSecond;
    case LYRE_E_PERMISSION:
    case LYRE_E_NORESOURCES:
      return kFreeContextNs;
    default:
      return 0;
  }
}

/// Tries until one is open, or its failure needs no patience, or the time is over. A daemon that is
/// back and has no context left, or no group yet, gets the time that this takes. At its
/// limits it refuses now a context and now a connection, which looks as if there were no daemon:
/// all of it has a bound.
std::unique_ptr<Instance> open_patiently(const Settings& settings, uint64_t communicator,
                                         int failure) {
  const int64_t began_ns = monotonic_ns();
  const int64_t latest_ns = began_ns + patience_ns(LYRE_E_DAEMON, settings) + kFreeContextNs;
  int64_t until_ns = began_ns + patience_ns(failure, settings);
  std::unique_ptr<Instance> instance;
  while (instance == nullptr && patience_ns(failure, settings) > 0 && monotonic_ns() < until_ns) {
    const int before = failure;
    sleep_ns(kInitAgainNs);
    instance = Instance::open(settings, communicator, &failure);
    if (failure == before) continue;
    const int64_t from_ns = failure == LYRE_E_DAEMON ? began_ns : monotonic_ns();
    const int64_t wanted_ns = from_ns + patience_ns(failure, settings);
    until_ns = std::min(latest_ns, std::max(until_ns, wanted_ns));
  }
  return instance;
}

/// A process that has used a daemon looks for it as long as its comms do. The first init waits,
/// too, where the settings want Lyre: ranks may start while the daemon is restarted, and NCCL never
/// asks a plugin again whose init failed. So it does for a daemon that has no context left: it is
/// there and wanted. Otherwise, where none answers, the first init fails at once: perhaps no daemon
/// is wanted here.
std::unique_ptr<Instance> find_daemon(const Settings& settings, uint64_t communicator) try {
  int failure = 0;
  std::unique_ptr<Instance> instance = Instance::open(settings, communicator, &failure);
  const int64_t most_ns = patience_ns(failure, settings);
  const bool may_wait =
      settings.is_wanted || known_port_count() > 0 || failure == LYRE_E_NORESOURCES;
  if (instance == nullptr && may_wait && most_ns > 0) {
    log_info("the Lyre daemon at %s takes no client now; trying again for %lld s: %s",
             socket_path_text(settings), static_cast<long long>(most_ns / kNsPerSecond),
             lyre_last_error());
    instance = open_patiently(settings, communicator, failure);
  }
  if (instance == nullptr) {
    log_warn("cannot use the Lyre daemon at %s: %s", socket_path_text(settings), lyre_last_error());
  }
  return instance;
} catch (const std::system_error& error) {
  log_warn("cannot start a thread: %s", error.what());
  if (!settings.is_required) return nullptr;
  die("LYRE_REQUIRED is set and no thread can be started (%s): ending this process", error.what());
}

/// A wrong name in LYRE_RAILS fails the first init. Later those are used that are right: the daemon
/// was perhaps restarted with other ports.
bool has_usable_rails(Instance& instance) {
  std::string wrong;
  {
    const std::lock_guard lock(instance.mutex());
    if (!instance.is_attached()) return true;
    wrong = wrong_rails(instance.context(), instance.settings().rails);
  }
  if (wrong.empty()) return true;
  log_warn("%s", wrong.c_str());
  return known_port_count() > 0 && !instance.ports().empty();
}

/// Versions of NCCL before 2.28 have one context, that of the process, which they never finalize.
bool has_context() { return instance_registry().has_context() || contexts().has_live(); }

/// With its last communicator NCCL 2.28 and later forget the number of devices, and ask again,
/// unless they keep the plugin.
void forget_devices_as_nccl() {
  if (has_context()) return;
  if (nccl_abi::keeps_plugin(std::getenv(nccl_abi::kPluginUsersSetting))) return;
  forget_first_port_count();
}

/// NCCL asks once how many devices there are, and uses as many in each communicator.
bool has_enough_ports(const Instance& instance) {
  const char* socket = socket_path_text(instance.settings());
  const size_t ports = instance.ports().size();
  const auto devices = static_cast<size_t>(first_port_count());
  if (ports == 0) log_warn("the Lyre daemon at %s has no port", socket);
  if (ports > 0 && ports < devices) {
    log_warn(
        "usable ports of the Lyre daemon at %s: %zu, and %zu when this process began: restart the "
        "job, or the daemon with as many ports",
        socket, ports, devices);
  }
  return ports > 0 && ports >= devices;
}

std::unique_ptr<Instance> refuse_setting(const Settings& settings) {
  if (settings.is_required) die("LYRE_REQUIRED is set and a setting is wrong: ending this process");
  return nullptr;
}

/// `settings` as the environment has them. False: one is wrong.
bool read_environment(Settings* settings) {
  warn_of_unknown_settings();
  if (read_settings(settings)) return true;
  refuse_setting(*settings);
  return false;
}

/// NCCL is told of the ports that the daemon has now.
void announce(Instance& instance) {
  log_attached(instance);
  const VerbsReport verbs = find_verbs(instance.settings());
  instance.show_verbs(verbs.summary);
  set_known_ports(instance.ports(), verbs.usable, instance.settings().latency_us);
}

/// Without waiting for a daemon that is away.
std::unique_ptr<Instance> open_now(const Settings& settings, uint64_t communicator) try {
  int failure = 0;
  std::unique_ptr<Instance> instance = Instance::open(settings, communicator, &failure);
  if (instance == nullptr) {
    log_info("the Lyre daemon at %s takes no client now; this communicator will ask again: %s",
             socket_path_text(settings), lyre_last_error());
  }
  return instance;
} catch (const std::system_error& error) {
  log_warn("cannot start a thread: %s", error.what());
  return nullptr;
}

/// NCCL will count the ports anew: as many as the daemon has now. nullptr where it takes no client,
/// or its ports are of no use: then NCCL gets as many as are known.
std::unique_ptr<Instance> look_for_ports(const Settings& settings, uint64_t communicator) {
  std::unique_ptr<Instance> instance = open_now(settings, communicator);
  forget_devices_as_nccl();
  if (instance != nullptr && (!has_usable_rails(*instance) || !has_enough_ports(*instance))) {
    instance.reset();
  }
  if (instance == nullptr) {
    count_known_ports();
  } else {
    announce(*instance);
  }
  return instance;
}

}  // namespace

std::unique_ptr<Instance> open_instance(const Settings& settings, uint64_t communicator) {
  if (!is_possible(settings)) return refuse_setting(settings);
  std::unique_ptr<Instance> instance = find_daemon(settings, communicator);
  if (instance != nullptr && !has_usable_rails(*instance)) return refuse_setting(settings);
  forget_devices_as_nccl();
  if (instance != nullptr && !has_enough_ports(*instance)) instance.reset();
  if (instance == nullptr) {
    if (settings.is_required) {
      die("LYRE_REQUIRED is set and no usable Lyre daemon at %s (%s): ending this process",
          socket_path_text(settings), lyre_last_error());
    }
    return nullptr;
  }
  announce(*instance);
  return instance;
}

std::unique_ptr<Instance> open_process_instance() {
  Settings settings;
  return read_environment(&settings) ? open_instance(settings, 0) : nullptr;
}

std::optional<Prepared> prepare_instance(uint64_t communicator) {
  Prepared prepared;
  prepared.communicator = communicator;
  const Settings& settings = prepared.settings;
  if (!read_environment(&prepared.settings)) return std::nullopt;
  if (known_port_count() == 0) {
    prepared.instance = open_instance(settings, communicator);
    if (prepared.instance == nullptr) return std::nullopt;
  } else if (!has_context()) {
    prepared.instance = look_for_ports(settings, communicator);
  }
  return prepared;
}

}  // namespace lyre::nccl_adapter
