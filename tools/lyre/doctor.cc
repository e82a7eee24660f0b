#include "tools/lyre/doctor.h"

#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <string>

#include "machine/remote_logins.h"
#include "nccl_adapter/abi/setting_names.h"
#include "tools/lyre/configured.h"
#include "tools/lyre/doctor/config_checks.h"
#include "tools/lyre/doctor/daemon_checks.h"
#include "tools/lyre/doctor/machine_checks.h"
#include "tools/lyre/doctor/nccl_checks.h"
#include "tools/lyre/failure.h"

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

std::string sysctl_text() {
  std::string text = text_in({"/etc/sysctl.d", "/run/sysctl.d", "/usr/lib/sysctl.d"});
  for (const std::string& line : machine::lines("/etc/sysctl.conf")) text += line + "\n";
  return text;
}

std::string modprobe_text() {
  return text_in({"/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"});
}

void append(std::vector<Finding>& findings, std::vector<Finding> more) {
  for (Finding& finding : more) findings.push_back(std::move(finding));
}

std::vector<Finding> check_this_machine() {
  const machine::Roots roots;
  const auto nics = nic_states(roots, machine::NicGuard(roots, machine::ssh_connection(roots)));
  utsname system{};
  ::uname(&system);
  std::vector<Finding> findings{check_kernel(system.release)};
  append(findings, check_nics(nics));
  append(findings, {check_iommu(roots, nics), check_driver_modules(roots, nics)});
  append(findings, check_write_combining(roots, nics, modprobe_text()));
  append(findings, {check_hugepages(roots, nics), check_hugepages_at_boot(roots, sysctl_text()),
                    check_isolation(roots), check_io_uring(roots)});
  return findings;
}

std::vector<Finding> check_job() {
  const Settings settings =
      nccl_settings(environ, {variable("HOME") + "/.nccl.conf", "/etc/nccl.conf"});
  std::vector<Finding> findings = check_nccl(settings, load_plugin, gnu_get_libc_version());
  for (const std::string& line : nccl_abi::unknown_settings(environ)) {
    findings.push_back(problem("settings", line, "what it was meant to set keeps its default",
                               "correct the name"));
  }
  return findings;
}

void run_doctor(const GlobalOptions& globals, const std::string& config_path) {
  std::vector<Finding> findings = check_this_machine();
  append(findings, check_config(config_path));
  const auto devices = configured_devices(config_path);
  append(findings, check_drop_ins(devices, {}, {.drop_ins = LYRE_DATA_DIR "/lyred.service.d"}));
  append(findings, check_numa(devices, configured_cores(config_path), {}));
  const std::string socket =
      !globals.socket_path.empty() ? globals.socket_path : variable("LYRE_SOCKET");
  append(findings, check_socket(socket.empty() ? "/run/lyre/lyred.sock" : socket));
  append(findings, check_daemon(globals.socket_or_default()));
  append(findings, check_job());
  std::cout << (globals.is_json ? findings_json(findings) : findings_text(findings));
  if (has_problem(findings)) throw CLI::RuntimeError(kExitFailure);
}

}  // namespace

void add_doctor(CLI::App& app, const GlobalOptions& globals) {
  CLI::App* command = app.add_subcommand(
      "doctor", "What keeps Lyre from running here: each check, why it matters, what mends it");
  auto config = std::make_shared<std::string>("/etc/lyre/lyred.toml");
  command->add_option("--config", *config, "Configuration of lyred")->capture_default_str();
  command->callback([&globals, config] { run_doctor(globals, *config); });
}

}  // namespace lyre::tools
