#include "tools/lyre/nic.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "machine/kernel_modules.h"
#include "machine/remote_logins.h"
#include "tools/lyre/configured.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/nic/boot_binding.h"
#include "tools/lyre/nic/nic.h"
#include "tools/lyre/nic/port_section.h"
#include "tools/lyre/nic/preparation.h"
#include "tools/lyre/nic/run_commands.h"
#include "tools/lyre/nic/running_ports.h"

namespace lyre::tools {
namespace {

std::vector<NicState> states_here() {
  return nic_states({}, machine::NicGuard({}, machine::ssh_connection(), machine::own_addresses()));
}

constexpr const char* kConfig = "/etc/lyre/lyred.toml";

PreparedFiles files_here() {
  return {.drop_ins = LYRE_DATA_DIR "/lyred.service.d", .program = LYRE_BIN_DIR "/lyre"};
}

/// `command`: of bind_command() or unbind_command(); an empty one changes no driver.
void refuse_under_daemon(const std::vector<std::string>& command, const machine::Nic& nic,
                         const GlobalOptions& globals) {
  if (command.empty()) return;
  refuse_in_use(nic, devices_in_use(daemon_socket(globals, kConfig), kConfig));
}

std::string section_of(const std::vector<NicState>& states, const std::string& name) {
  const NicState& state = nic_named(states, name);
  return port_section(state, interface_use(state.nic.interfaces));
}

/// Runs the command of bind_command(). Without one the NIC stays with its kernel driver.
void run_bind(const std::vector<std::string>& command, const machine::Nic& nic,
              const std::string& section, bool is_dry_run) {
  if (command.empty()) return;
  const std::string& driver = command.back();
  check_driver_is_available(nic, driver, {}, machine::modules_folder());
  if (is_dry_run) return run_command(command, is_dry_run);
  try {
    take_from_kernel(command, section);
  } catch (const Failure&) {
    // Its interface may be gone, its address is not.
    std::cerr << after_failed_bind(states_here(), nic.address, driver, section);
    throw;
  }
}

void add_list(CLI::App& nic, const GlobalOptions& globals) {
  nic.add_subcommand("list", "NICs, their drivers, and what the machine needs them for")
      ->callback([&globals] {
        const auto states = states_here();
        std::cout << (globals.is_json ? nics_json(states) : nics_text(states));
      });
}

void bind_nic(const BindRequest& request, bool is_dry_run, const GlobalOptions& globals) {
  auto states = states_here();
  ask_lyred(states);
  const auto bind = bind_command(states, request);
  const NicState& state = nic_named(states, request.name);
  if (!request.is_forced) refuse_under_daemon(bind, state.nic, globals);
  // The kernel forgets the addresses with the interface, and what the preparation depends on.
  const std::string section = section_of(states, request.name);
  const std::string driver = bind.empty() ? "" : bind.back();
  const Commands preparation = prepare_commands(state, driver, {}, files_here());
  std::optional<UninterruptedSteps> whole;
  if (!is_dry_run) whole.emplace();
  run_bind(bind, state.nic, section, is_dry_run);
  if (!is_dry_run) print_section(section, std::cout, std::cerr);
  run_commands(preparation, is_dry_run);
}

void add_bind(CLI::App& nic, const GlobalOptions& globals) {
  CLI::App* command = nic.add_subcommand(
      "bind",
      "Take a NIC from the kernel for lyred, now and after each boot, with the hugepages and the "
      "drop-in of the service that it needs, and print the section of lyred.toml with its address; "
      "needs root");
  auto request = std::make_shared<BindRequest>();
  auto is_dry_run = std::make_shared<bool>(false);
  command
      ->add_option("NIC", request->name, "PCI address, vmbus:UUID, or name of a kernel interface")
      ->required();
  command
      ->add_option("--driver", request->driver,
                   "vfio-pci, uio_pci_generic, igb_uio or uio_hv_generic; default: by the NIC")
      ->check(CLI::IsMember({"vfio-pci", "uio_pci_generic", "igb_uio", "uio_hv_generic"})
                  .description(""));
  command->add_flag(
      "--force", request->is_forced,
      "Also the NIC of the default route or of an SSH session, one that lyred refuses, "
      "a port of a lyred that runs, and vfio-pci without an IOMMU");
  command->add_flag("--dry-run", *is_dry_run, "Print the commands only");
  command->callback([request, is_dry_run, &globals] {
    refuse_json(globals, "nic bind");
    bind_nic(*request, *is_dry_run, globals);
  });
}

void add_port(CLI::App& nic, const GlobalOptions& globals) {
  CLI::App* command = nic.add_subcommand(
      "port", "The section of lyred.toml with which lyred uses a NIC as the kernel does now");
  auto name = std::make_shared<std::string>();
  command->add_option("NIC", *name, "PCI address, vmbus:UUID, or name of a kernel interface")
      ->required();
  command->callback([name, &globals] {
    refuse_json(globals, "nic port");
    std::cout << section_of(states_here(), *name);
  });
}

/// The boot asks: see boot_binding.h.
void add_is_at(CLI::App& nic, const GlobalOptions& globals) {
  CLI::App* command = nic.add_subcommand(
      "is-at",
      "Exit status 0 if this NIC lies at the PCI address, else 1 with a line that says what does: "
      "what bind wrote asks it at each boot");
  auto wanted = std::make_shared<NicIdentity>();
  command->add_option("ADDRESS", wanted->address, "PCI address, such as 0000:00:06.0")->required();
  command->add_option("ID", wanted->ids, "Vendor and device, such as 1d0f:ec20")->required();
  command->add_option("MAC", wanted->mac, "Compared if the kernel has an interface of the NIC");
  command->callback([wanted, &globals] {
    refuse_json(globals, "nic is-at");
    const std::string why = why_not_at(machine::pci_nics({}), *wanted);
    if (!why.empty()) throw Failure(kExitFailure, why);
  });
}

void unbind_nic(const std::string& name, bool is_forced, bool is_dry_run,
                const GlobalOptions& globals) {
  const auto states = states_here();
  const machine::Nic& left = nic_named(states, name).nic;
  const auto unbind = unbind_command(states, name);
  if (!is_forced) refuse_under_daemon(unbind, left, globals);
  if (!unbind.empty()) {
    run_command(unbind, is_dry_run);
  } else {
    std::cerr << left.address << " is with its kernel driver " << left.driver << std::endl;
  }
  const auto commands = unprepare_commands(states, name, {}, files_here());
  const auto kept = kept_preparations(states, name, {}, files_here());
  run_commands(commands, is_dry_run);
  for (const std::string& line : kept) std::cerr << line << std::endl;
  for (const std::string& line : sections_left(left, kConfig, configured_devices(kConfig))) {
    std::cerr << line << std::endl;
  }
}

void add_unbind(CLI::App& nic, const GlobalOptions& globals) {
  CLI::App* command = nic.add_subcommand(
      "unbind",
      "Give a NIC back to its kernel driver, now and after each boot, and take back what bind "
      "prepared when no other NIC needs it; needs root");
  auto name = std::make_shared<std::string>();
  auto is_dry_run = std::make_shared<bool>(false);
  command->add_option("NIC", *name, "PCI address, vmbus:UUID, or name of a kernel interface")
      ->required();
  auto is_forced = std::make_shared<bool>(false);
  command->add_flag("--force", *is_forced, "Also a port of a lyred that runs");
  command->add_flag("--dry-run", *is_dry_run, "Print the commands only");
  command->callback([name, is_forced, is_dry_run, &globals] {
    refuse_json(globals, "nic unbind");
    unbind_nic(*name, *is_forced, *is_dry_run, globals);
  });
}

}  // namespace

void add_nic(CLI::App& app, const GlobalOptions& globals) {
  CLI::App* nic =
      app.add_subcommand("nic", "NICs of this machine: list, bind, port, unbind, is-at");
  nic->require_subcommand(1);
  add_list(*nic, globals);
  add_bind(*nic, globals);
  add_port(*nic, globals);
  add_unbind(*nic, globals);
  add_is_at(*nic, globals);
}

}  // namespace lyre::tools
