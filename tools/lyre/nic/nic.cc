#include "tools/lyre/nic/nic.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "machine/default_driver.h"
#include "machine/kernel_modules.h"
#include "machine/vmbus.h"
#include "tools/lyre/child_program.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/json_document.h"
#include "tools/lyre/text_table.h"

namespace lyre::tools {
namespace {

using machine::Nic;
using machine::VmbusNic;

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

Nic nic_of(const VmbusNic& nic) {
  return {.address = machine::device_of(nic),
          .driver = nic.driver,
          .override_driver = nic.override_driver,
          .boot_driver = nic.boot_driver,
          .interfaces = nic.interfaces,
          .numa_node = nic.numa_node};
}

/// Without mac= its virtual function is not used.
std::string device_with_function(const machine::Roots& roots, const VmbusNic& nic) {
  const bool has_function =
      !nic.mac.empty() && !machine::function_with(roots, nic.mac).name.empty();
  return machine::device_of(nic) + (has_function ? ",mac=" + nic.mac : "");
}

std::vector<std::string> driverctl(const char* verb, const Nic& nic) {
  if (machine::is_on_vmbus(nic)) {
    return {"driverctl", "-b", "vmbus", verb, machine::vmbus_id_of(nic.address)};
  }
  return {"driverctl", verb, nic.address};
}

/// What driverctl binds the NIC by at a boot.
std::string boot_file(const Nic& nic) {
  const std::string id = machine::vmbus_id_of(nic.address);
  return "/etc/driverctl.d/" + (id.empty() ? "pci-" + nic.address : "vmbus-" + id);
}

/// The kernel chose its driver in this boot: driverctl's unit was refused, or is to act at the next
/// one.
bool is_bound_by_boot_only(const Nic& nic) {
  return nic.override_driver.empty() && !nic.driver.empty() &&
         !machine::is_user_space_driver(nic.driver);
}

/// Now or after a boot.
bool is_overridden(const Nic& nic) {
  return !nic.override_driver.empty() || !nic.boot_driver.empty();
}

/// Of one that is bound, `lyred --check` says more.
bool may_be_bound(const Nic& nic) {
  return !machine::is_on_vmbus(nic) && !machine::is_user_space_driver(nic.driver) &&
         !machine::default_driver(nic).driver.empty();
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

}  // namespace

std::string ids_of(const Nic& nic) {
  if (machine::is_on_vmbus(nic)) return "netvsc";
  char text[16];
  std::snprintf(text, sizeof text, "%04x:%04x", unsigned{nic.vendor}, unsigned{nic.device});
  return text;
}

bool is_on(const std::string& device, const Nic& nic) {
  const std::string id = machine::vmbus_id_of(device);
  return nic.address == (id.empty() ? machine::pci_address_of(device) : "vmbus:" + id);
}

const NicState& nic_named(const std::vector<NicState>& states, const std::string& name) {
  const std::string id = machine::vmbus_id_of(name);
  const std::string address = id.empty() ? machine::pci_address_of(name) : "vmbus:" + id;
  const auto it = std::find_if(states.begin(), states.end(), [&](const NicState& state) {
    const auto& interfaces = state.nic.interfaces;
    return state.nic.address == address ||
           std::find(interfaces.begin(), interfaces.end(), name) != interfaces.end();
  });
  if (it != states.end()) return *it;
  std::vector<std::string> there;
  for (const NicState& state : states) there.push_back(state.nic.address);
  throw Failure(kExitUsage, "there is no NIC '" + name +
                                "', allowed: " + (there.empty() ? "none is there" : joined(there)));
}

std::vector<NicState> nic_states(const machine::Roots& roots, const machine::NicGuard& guard) {
  std::vector<NicState> states;
  for (Nic& nic : machine::pci_nics(roots)) {
    const auto loss = guard.loss_with(nic.address);
    const std::string device = nic.address;
    states.push_back({std::move(nic), device, loss ? loss->carries : ""});
  }
  for (VmbusNic& nic : machine::vmbus_nics(roots)) {
    const std::string device = device_with_function(roots, nic);
    const auto loss = guard.loss_with(device);
    states.push_back({nic_of(nic), device, loss ? loss->carries : ""});
  }
  return states;
}

void ask_lyred(std::vector<NicState>& states) {
  std::vector<std::string> command = {"lyred", "--check-nics"};
  for (const NicState& state : states) {
    if (may_be_bound(state.nic)) command.push_back(state.nic.address);
  }
  std::string output;
  if (command.size() > 2 && run_program(command, output)) note_refusals(states, output);
}

void note_refusals(std::vector<NicState>& states, const std::string& output) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    for (NicState& state : states) {
      const std::string begin = "lyred: " + state.nic.address + ": ";
      if (line.starts_with(begin)) state.refusal = line.substr(begin.size());
    }
  }
}

std::string nics_text(const std::vector<NicState>& states) {
  if (states.empty()) return "no Ethernet NIC on the PCI bus or the VMbus\n";
  TextTable table;
  for (const char* title : {"nic", "id", "interface", "driver", "after boot", "iommu"}) {
    table.add_column(title);
  }
  table.add_column("numa", TextTable::Align::kRight);
  table.add_column("needed for");
  for (const NicState& state : states) {
    const Nic& nic = state.nic;
    table.add_row({nic.address, ids_of(nic), or_dash(joined(nic.interfaces)), or_dash(nic.driver),
                   or_dash(nic.boot_driver), nic.has_iommu ? "yes" : "no",
                   nic.numa_node < 0 ? "-" : std::to_string(nic.numa_node),
                   or_dash(state.needed_for)});
  }
  return table.text();
}

std::string nics_json(const std::vector<NicState>& states) {
  auto nics = nlohmann::ordered_json::array();
  for (const NicState& state : states) {
    const Nic& nic = state.nic;
    nics.push_back({{"address", nic.address},
                    {"device", state.device},
                    {"id", ids_of(nic)},
                    {"interfaces", nic.interfaces},
                    {"driver", nic.driver},
                    {"driver_override", nic.override_driver},
                    {"driver_after_boot", nic.boot_driver},
                    {"has_iommu", nic.has_iommu},
                    {"numa_node", nic.numa_node},
                    {"needed_for", state.needed_for}});
  }
  return json_text(document_of({{"nics", std::move(nics)}}), false);
}

bool is_with_kernel(const Nic& nic) {
  return !is_overridden(nic) && !nic.driver.empty() && !machine::is_user_space_driver(nic.driver);
}

bool stays_with_kernel(const Nic& nic) {
  return !is_overridden(nic) && machine::default_driver(nic).driver.empty() &&
         !machine::is_user_space_driver(nic.driver);
}

std::vector<std::string> bind_command(const std::vector<NicState>& states,
                                      const BindRequest& request) {
  const NicState& state = nic_named(states, request.name);
  const Nic& nic = state.nic;
  if (!state.needed_for.empty() && !request.is_forced) {
    throw Failure(kExitFailure, nic.address + " (" + joined(nic.interfaces) + ") carries " +
                                    state.needed_for +
                                    ", allowed: another NIC, or --force, which may cut you off");
  }
  if (!state.refusal.empty() && !request.is_forced) {
    throw Failure(kExitFailure, nic.address + ": " + state.refusal + ", or --force");
  }
  const machine::DriverChoice choice = machine::default_driver(nic);
  if (machine::is_mana(nic) && request.driver.empty()) {
    throw Failure(kExitFailure,
                  nic.address + " stays with " + or_dash(nic.driver) + ": " + choice.reason);
  }
  if (choice.driver.empty() && request.driver.empty()) return {};
  const std::string driver = request.driver.empty() ? choice.driver : request.driver;
  if (const std::string why = machine::why_unsuitable(nic, driver); !why.empty()) {
    throw Failure(kExitFailure, nic.address + " " + why);
  }
  if (driver == "vfio-pci" && !nic.has_iommu && !request.is_forced) {
    throw Failure(kExitFailure, nic.address +
                                    " is behind no IOMMU, without which vfio-pci binds no NIC, "
                                    "allowed: " +
                                    (choice.driver.empty() ? "its own driver" : choice.driver) +
                                    ", or --force with a kernel that has a no-IOMMU mode");
  }
  if (machine::is_on_vmbus(nic) && driver != choice.driver) {
    throw Failure(kExitFailure, nic.address + " is on the VMbus, allowed: " + choice.driver);
  }
  std::vector<std::string> command = driverctl("set-override", nic);
  command.push_back(driver);
  return command;
}

void check_driver_is_available(const Nic& nic, const std::string& driver,
                               const machine::Roots& roots, const std::string& modules_folder) {
  if (machine::is_driver_available(driver, roots, modules_folder)) return;
  const std::string remedy = machine::remedy_for_absent(driver, roots);
  throw Failure(kExitFailure,
                nic.address + " needs the kernel module " + driver +
                    ", which this kernel does not have, allowed: " +
                    (remedy.empty() ? "a kernel that has it, or another --driver" : remedy));
}

std::string after_failed_bind(const std::vector<NicState>& now, const std::string& address,
                              const std::string& driver, const std::string& section) {
  const std::string undo = "`lyre nic unbind " + address + "`";
  const std::string remedy = machine::remedy_for(driver);
  const std::string provided = remedy.empty() ? "" : driver + " is provided by: " + remedy + "\n";
  const std::string was = " It was configured as:\n" + section;
  const auto it = std::ranges::find(now, address, [](const NicState& s) { return s.nic.address; });
  if (it == now.end()) return provided + address + " is not there any more." + was;
  const Nic& nic = it->nic;
  if (nic.driver.empty() || machine::is_user_space_driver(nic.driver)) {
    return provided + address + " has lost its kernel driver; " + undo + " gives it back." + was;
  }
  const std::string still = provided + address + " is still with its kernel driver " + nic.driver;
  if (nic.boot_driver.empty()) return still + "\n";
  return still + " until the next boot, and then with " + nic.boot_driver + "; " + undo +
         " takes that back\n";
}

std::vector<std::string> unbind_command(const std::vector<NicState>& states,
                                        const std::string& name) {
  const Nic& nic = nic_named(states, name).nic;
  // driverctl would take it from its driver for a moment, and with it what the machine needs it
  // for.
  if (is_with_kernel(nic)) return {};
  if (is_bound_by_boot_only(nic)) return {"rm", boot_file(nic)};
  return driverctl("unset-override", nic);
}

void refuse_in_use(const Nic& nic, const std::vector<std::string>& devices) {
  if (std::ranges::none_of(devices, [&](const std::string& each) { return is_on(each, nic); })) {
    return;
  }
  throw Failure(kExitFailure, nic.address +
                                  " is a port of the lyred that runs, allowed: systemctl stop "
                                  "lyred before, or --force");
}

std::vector<std::string> sections_left(const Nic& nic, const std::string& path,
                                       const std::vector<std::string>& devices) {
  std::vector<std::string> lines;
  for (const std::string& device : devices) {
    if (!is_on(device, nic)) continue;
    lines.push_back(path + " still has the [[port]] with device = \"" + device +
                    "\": remove it before lyred starts");
  }
  return lines;
}

}  // namespace lyre::tools
