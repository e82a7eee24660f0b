#include <fcntl.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "daemon/backend.h"
#include "daemon/base/daemon_limits.h"
#include "daemon/base/journal.h"
#include "daemon/command_line.h"
#include "daemon/config/config.h"
#include "daemon/host/capabilities.h"
#include "daemon/host/kernel_queues.h"
#include "daemon/host/machine_check.h"
#include "daemon/host/machine_probe.h"
#include "daemon/host/port_privileges.h"
#include "daemon/host/port_sockets.h"
#include "daemon/host/telemetry_sweeper.h"
#include "daemon/host/worker_placement.h"
#include "daemon/launcher.h"
#include "daemon/logging.h"
#include "daemon/memory/client_mapping.h"
#include "daemon/memory/helper_program.h"
#include "daemon/memory/mapping_helper.h"
#include "daemon/memory/mapping_opener.h"
#include "daemon/stats_keeper.h"
#include "daemon/upgrade/new_process.h"
#include "libclient/include/lyre/lyre.h"
#include "libclient/upgrade.h"
#include "machine/remote_logins.h"
#include "nccl_adapter/abi/telemetry.h"

namespace lyre {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitBadConfig = 2;

/// Each line of `text` by itself.
int complain(const std::string& text, int code) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::fprintf(stderr, "%slyred: %s\n", error_priority(), line.c_str());
  }
  return code;
}

int complain_of_nics(const std::vector<std::string>& devices) {
  const std::vector<std::string> lines = check_nics(devices);
  for (const std::string& line : lines) complain(line, kExitBadConfig);
  return lines.empty() ? 0 : kExitBadConfig;
}

/// What can change while the daemon runs: the log level.
void reload(const std::string& path) {
  const auto config = load_config(path);
  if (!config.ok()) {
    std::istringstream lines(config.error().text);
    for (std::string line; std::getline(lines, line);) spdlog::error("not reloaded: {}", line);
    return;
  }
  set_log_level(config.value().log_level);
  spdlog::info("{} was read again for its log level; other keys need an upgrade or a restart",
               path);
}

std::vector<Error> check_here(Config& config, Cores cores) {
  const machine::NicGuard guard({}, machine::ssh_connection(), machine::own_addresses());
  std::vector<Error> errors = check_machine(config, guard, {}, cores);
  const uint32_t most = virtual_workers_max(config);
  if (most < config.cores.size()) limit_workers(config, {}, /*least=*/1, most);
  for (Error& error : check_virtual_devices(config)) errors.push_back(std::move(error));
  return errors;
}

/// All that will be wrong when the daemon starts, as exit status.
int check_ahead(Config& config) {
  std::vector<std::string> lines;
  for (Error& error : check_here(config, Cores::kOfService)) lines.push_back(std::move(error.text));
  for (std::string& line : probe_machine(config, {})) lines.push_back(std::move(line));
  // Of a NIC that is not there, or not bound, nothing more can be said.
  if (lines.empty()) lines = check_nics(config);
  for (const std::string& line : lines) complain(line, kExitBadConfig);
  return lines.empty() ? 0 : kExitBadConfig;
}

/// A boot may give the kernel an address or an interface back that a port has: the port starts, and
/// its connections are reset or hear nothing.
void warn_of_machine(const Config& config) {
  for (const std::string& line : probe_machine(config, {})) spdlog::warn("{}", line);
}

/// All that is wrong with the configuration on this machine, as exit status: whether another start
/// may succeed without another configuration.
int check_start(Config& config) {
  bool is_passing = true;
  int code = 0;
  for (const Error& error : check_here(config, Cores::kOfThisProcess)) {
    is_passing = is_passing && error.code == EBUSY;
    code = complain(error.text, is_passing ? kExitFailed : kExitBadConfig);
  }
  return code;
}

void wait_for_signal(boost::asio::signal_set& signals, Launcher& launcher,
                     const std::string& config_path) {
  signals.async_wait([&](const boost::system::error_code& error, int number) {
    if (error) return;
    if (number == SIGHUP) {
      reload(config_path);
    } else {
      launcher.begin_stop();
    }
    wait_for_signal(signals, launcher, config_path);
  });
}

/// For people: "ports: eth1 on 0000:00:06.0, by DPDK 22.11.7".
std::string ports_text(const Config& config) {
  std::string out = "ports: ";
  for (const PortConfig& port : config.ports) out += port.name + " on " + port.device + ", ";
  return out + "by " + backend_text();
}

/// The process that parses packets keeps nothing that it does not need any more.
Status drop_privileges(const Config& config) {
  const Status dropped = drop_capabilities(capabilities_to_keep(config));
  if (!dropped.ok()) return dropped;
  const std::string kept = names_of(effective_capabilities());
  spdlog::info("capabilities kept: {}", kept.empty() ? "none" : kept);
  return Ok{};
}

/// Has the running daemon of this configuration go on in a new process. Its answer is on standard
/// output, or one line on standard error.
int upgrade(const Config& config) {
  client::Upgraded done;
  if (client::upgrade_daemon(config.socket_path.c_str(), done) != 0) {
    return complain(lyre_last_error(), kExitFailed);
  }
  std::printf("process %d, release %s, serves after %.1f ms without a turn\n", done.pid,
              done.release.c_str(), done.pause_us / 1000.0);
  return 0;
}

void limit_workers_here(Config& config, uint32_t least, uint32_t most) {
  limit_workers(config, {}, least, most);
}

struct Origin {
  std::string program;      ///< of this process
  bool takes_over = false;  ///< from the process that started this one
};

/// A daemon that takes over has the memory helper of the other one, which executes its program
/// again (Launcher::assemble()).
Result<MappingHelperProcess> start_helper(const Origin& origin) {
  if (origin.takes_over) return MappingHelperProcess();
  return MappingHelperProcess::start(origin.program);
}

/// Of containers, which are given this directory. That of the host, /dev/shm, belongs to root.
Result<TelemetrySweeper> start_sweeper() {
  return TelemetrySweeper::start(nccl_abi::kContainersTelemetryDirectory, kTelemetrySweepPeriod);
}

int serve(const Config& config, const Origin& origin) {
  const Status privileges = check_privileges(config, effective_capabilities());
  if (!privileges.ok()) return complain(privileges.error().text, kExitBadConfig);
  OwnedFd predecessor(origin.takes_over ? kUpgradeDescriptor : -1);
  auto helper = start_helper(origin);
  if (!helper.ok()) return complain(helper.error().text, kExitFailed);
  auto keeper = StatsKeeper::start(config.socket_path + channel::kLastStatsSuffix);
  if (!keeper.ok()) return complain(keeper.error().text, kExitFailed);
  const auto sweeper = start_sweeper();
  if (!sweeper.ok()) return complain(sweeper.error().text, kExitFailed);
  boost::asio::io_context io;
  // Before any thread or DPDK: from here on these signals reach only the queue that is read below.
  boost::asio::signal_set signals(io, SIGTERM, SIGINT, SIGHUP);
  ::signal(SIGPIPE, SIG_IGN);
  start_logging(config.log_level);
  spdlog::info("lyred {} on {}, {}; {}", LYRE_VERSION, backend_text(), config.file,
               placement_text(config));
  warn_of_machine(config);
  auto launcher = Launcher::start(config, io,
                                  {.start_backend = start_backend,
                                   .limit_workers = limit_workers_here,
                                   .drop_privileges = drop_privileges,
                                   .helper = std::move(*helper),
                                   .keeper = std::move(*keeper),
                                   .program = origin.program,
                                   .predecessor = std::move(predecessor)});
  if (!launcher.ok()) return complain(launcher.error().text, kExitFailed);
  wait_for_signal(signals, **launcher, config.file);
  io.run();
  return 0;
}

int run(int argc, char** argv) {
  const std::string program = program_path();
  CLI::App app;
  DaemonOptions options;
  define_daemon_command_line(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return complain(error.what(), kExitBadConfig);
  }
  if (options.is_memory_helper) {
    if (::fcntl(kMappingHelperDescriptor, F_GETFD) < 0) {
      return complain(kMappingHelperArgument + std::string(" is for the daemon itself"),
                      kExitBadConfig);
    }
    run_mapping_helper(OwnedFd(kMappingHelperDescriptor), open_client_mapping, program);
  }
  if (!options.nics_to_check.empty()) return complain_of_nics(options.nics_to_check);
  auto [config, errors] = read_config(options.config_path);
  if (!errors.empty()) {
    complain(errors, kExitBadConfig);
    // What the machine lacks for the rest is listed with them.
    if (options.only_check) check_ahead(config);
    return kExitBadConfig;
  }
  if (options.only_upgrade) return upgrade(config);
  // What a daemon goes on with is not the kernel's any more, whoever has logged in meanwhile.
  for (PortConfig& port : config.ports) port.is_forced = port.is_forced || options.takes_over;
  const int code = options.only_check ? check_ahead(config) : check_start(config);
  if (code != 0) return code;
  if (options.only_check) {
    std::printf("%s: right\n%s\n%s\n%s%s", options.config_path.c_str(),
                placement_text(config).c_str(), ports_text(config).c_str(),
                affinity_text(config, {}).c_str(), host_path_text(config).c_str());
    for (const std::string& line : kernel_queues(config)) std::printf("%s\n", line.c_str());
    return 0;
  }
  const Status sockets = prepare_port_sockets(config);
  if (!sockets.ok()) return complain(sockets.error().text, kExitBadConfig);
  return serve(config, {.program = program, .takes_over = options.takes_over});
}

}  // namespace
}  // namespace lyre

int main(int argc, char** argv) {
  try {
    return lyre::run(argc, argv);
  } catch (const std::exception& error) {
    return lyre::complain(error.what(), lyre::kExitFailed);
  }
}
