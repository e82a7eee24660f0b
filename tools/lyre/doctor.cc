#include "tools/lyre/doctor.h"

#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <string>

#include "machine/kernel_modules.h"
#include "machine/remote_logins.h"
#include "tools/lyre/configured.h"
#include "tools/lyre/doctor/config_checks.h"
#include "tools/lyre/doctor/daemon_checks.h"
#include "tools/lyre/doctor/job_checks.h"
#include "tools/lyre/doctor/machine_checks.h"
#include "tools/lyre/doctor/nccl_checks.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/hugepage_need.h"
#include "tools/lyre/value_checks.h"

namespace lyre::tools {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// All lines of the files in these folders.
std::string text_in(std::initializer_list<const char*> folders) {
  std::string text;
  for (const char* folder : folders) {
    for (const std::string& name : machine::entries(folder)) {
      for (const auto& line : machine::lines(std::string(folder) + "/" + name)) text += line + "\n";
    }
  }
  return text;
}

std::string modprobe_text() {
  return text_in({"/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"});
}

void append(std::vector<Finding>& findings, std::vector<Finding> more) {
  for (Finding& finding : more) findings.push_back(std::move(finding));
}

/// For ports on `devices`.
std::vector<Finding> check_this_machine(const std::vector<std::string>& devices,
                                        uint64_t hugepages_needed_mib, bool has_daemon) {
  const machine::Roots roots;
  const machine::NicGuard guard(roots, machine::ssh_connection(roots), machine::own_addresses());
  auto nics = nic_states(roots, guard);
  ask_lyred(nics);
  utsname system{};
  ::uname(&system);
  std::vector<Finding> findings{check_kernel(system.release, system.machine)};
  append(findings, check_nics(nics));
  append(findings, {check_iommu(roots, nics, system.machine), check_lockdown(roots, nics),
                    check_driver_modules(roots, nics, machine::modules_folder())});
  append(findings, check_next_kernel(nics, system.release, "/lib/modules"));
  append(findings, check_write_combining(roots, nics, modprobe_text()));
  append(findings, {check_hugepages(roots, nics, devices, hugepages_needed_mib, has_daemon),
                    check_hugepages_at_boot(roots, {}, hugepages_needed_mib),
                    check_isolation(roots), check_io_uring(roots)});
  return findings;
}

std::vector<Finding> check_environment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  const Settings settings = nccl_settings(environment, nccl_files(environment, variable("HOME")));
  return check_nccl(settings, open_plugin, gnu_get_libc_version());
}

/// `is_named`: by the user, not the default.
std::vector<Finding> check_all(const GlobalOptions& globals, const std::string& config_path,
                               bool is_named) {
  const ConfigCheck config = run_config_check(config_path);
  const DaemonUnit unit = unit_of(config_path);
  const auto devices = configured_devices(config_path);
  const std::string socket = daemon_socket(globals, config_path);
  std::vector<Finding> findings = check_this_machine(
      devices, hugepages_mib(workers_in(config.output), configured_packets(config_path)),
      is_daemon_there(socket.c_str()));
  if (is_named && !config.status) append(findings, check_named_config(config_path));
  append(findings, read_config_check(config.status, config.output, config.start_error));
  append(findings,
         check_drop_ins(devices, {}, {.drop_ins = LYRE_DATA_DIR "/lyred.service.d"}, unit));
  const auto cores = configured_cores(config_path);
  append(findings, check_affinity(run_unit_show(unit), cores, unit));
  append(findings, check_numa(devices, cores, {}));
  append(findings, check_socket(socket));
  append(findings, check_daemon(socket.c_str()));
  append(findings, check_environment());
  return findings;
}

/// Root, or the user whose daemon it is.
bool may_configure(const std::string& config_path) {
  return ::geteuid() == 0 || ::access(config_path.c_str(), W_OK) == 0;
}

void report(const GlobalOptions& globals, const std::vector<Finding>& findings) {
  std::cout << (globals.is_json ? findings_json(findings) : findings_text(findings));
  if (has_problem(findings)) throw CLI::RuntimeError(kExitFailure);
}

}  // namespace

void add_doctor(CLI::App& app, const GlobalOptions& globals) {
  CLI::App* command = app.add_subcommand(
      "doctor", "What keeps Lyre from running here: each check, why it matters, what mends it");
  auto config = std::make_shared<std::string>("/etc/lyre/lyred.toml");
  const CLI::Option* config_option =
      command->add_option("--config", *config, "Configuration of lyred")->capture_default_str();
  auto pid = std::make_shared<int32_t>(0);
  command
      ->add_option("--pid", *pid,
                   "Only this process of a job: whether NCCL in it, or in its container, would "
                   "load the plugin and the plugin reach the daemon; needs root or its user")
      ->type_name("PID")
      ->excludes("--config")
      ->check(count_between(1, INT32_MAX));
  command->callback([&globals, config, config_option, pid] {
    auto findings = *pid > 0 ? check_job(job_of(*pid))
                             : check_all(globals, *config, config_option->count() > 0);
    if (!may_configure(*config)) refer_to_administrator(findings);
    report(globals, findings);
  });
}

}  // namespace lyre::tools
