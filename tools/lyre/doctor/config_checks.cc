#include "tools/lyre/doctor/config_checks.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "machine/core_choice.h"
#include "machine/nic_guard.h"
#include "machine/nics.h"
#include "machine/port_kind.h"
#include "machine/processors.h"
#include "tools/lyre/child_program.h"

namespace lyre::tools {
namespace {

constexpr const char* kSuffix = ".service";
constexpr const char* kMainConfig = "lyred.toml";

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// In a folder of units.
std::string drop_in_folder_of(const std::string& units, const std::string& unit) {
  return units + "/" + unit + kSuffix + ".d";
}

/// The drop-ins that systemd reads for units of this name, as paths.
std::vector<std::string> drop_ins_named(const std::string& unit, const ServiceFolders& folders) {
  std::vector<std::string> paths;
  for (const std::string& units : folders.units) {
    const std::string drop_ins = drop_in_folder_of(units, unit);
    for (const std::string& name : machine::entries(drop_ins)) {
      if (name.ends_with(".conf")) paths.push_back(drop_ins + "/" + name);
    }
  }
  return paths;
}

bool has_unit_file(const std::string& unit, const ServiceFolders& folders) {
  return std::ranges::any_of(folders.units, [&unit](const std::string& units) {
    return machine::exists(units + "/" + unit + kSuffix);
  });
}

std::string link_command(const std::string& drop_in, const ServiceFolders& folders,
                         const DaemonUnit& unit) {
  const std::string folder = drop_in_folder_of(folders.units.front(), unit.name);
  return "mkdir -p " + folder + " && ln -sf " + folders.drop_ins + "/" + drop_in + " " + folder +
         " && systemctl daemon-reload && systemctl restart " + unit.name;
}

/// `own`: drop-ins of the operator, which may give the same.
Finding check_needed(const std::string& device, const std::string& drop_in,
                     const std::vector<std::string>& own, const ServiceFolders& folders,
                     const DaemonUnit& unit) {
  const std::string saw =
      device + " needs " + drop_in + ", which " + unit.name + kSuffix + " does not have";
  const std::string mend = link_command(drop_in, folders, unit);
  if (own.empty()) {
    return problem("drop-ins", saw, "lyred may not open the port, and ends with status 2", mend);
  }
  return note("drop-ins", saw,
              "unless " + joined(own) + " gives the same, lyred ends with status 2", mend);
}

/// A NIC shows what it needs once it has the driver with which lyred opens it.
bool is_kind_known(const std::string& device, const machine::Roots& roots) {
  const std::string address = machine::pci_address_of(device);
  if (address.empty()) return true;
  if (machine::port_kind(device, roots) != machine::PortKind::kPlain) return true;
  const std::string folder = roots.sys + "/bus/pci/devices/" + address;
  return machine::is_user_space_driver(machine::link_name(folder + "/driver"));
}

/// Only of those that no other unit has: other instances may need what their template has.
std::vector<Finding> check_unneeded(const std::set<std::string>& needed,
                                    const ServiceFolders& folders, const DaemonUnit& unit) {
  std::vector<Finding> findings;
  for (const std::string& path : drop_ins_named(unit.name, folders)) {
    const std::string name = name_of(path);
    if (!contains(machine::shipped_drop_ins(), name) || needed.count(name) > 0) continue;
    findings.push_back(note("drop-ins", path + ": no port of " + unit.config + " needs it",
                            "the service may do more than it needs to",
                            "rm " + path + " && systemctl daemon-reload"));
  }
  return findings;
}

/// The value of a property that `systemctl show` printed; empty where it has none.
std::string property_in(const std::string& shown, std::string_view name) {
  const std::string begin = std::string(name) + "=";
  std::istringstream lines(shown);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(begin)) return line.substr(begin.size());
  }
  return "";
}

Finding check_node(const std::string& device, int node, const std::set<int>& nodes,
                   const std::vector<uint32_t>& cores, const machine::Roots& roots) {
  std::vector<uint32_t> sorted(cores);
  std::ranges::sort(sorted);
  const std::string saw = device + " is at NUMA node " + std::to_string(node) +
                          ", workers.cores = " + machine::list_of_numbers(sorted);
  if (nodes == std::set<int>{node}) return fine("numa", saw + " too");
  const std::string there = machine::first_line(roots.sys + "/devices/system/node/node" +
                                                std::to_string(node) + "/cpulist");
  return note("numa", saw + (nodes.count(node) > 0 ? " only in part" : " at another one"),
              "packets cross from one node's memory to the other's",
              "workers.cores = \"auto\" in /etc/lyre/lyred.toml, or some of " + there);
}

}  // namespace

DaemonUnit unit_of(const std::string& config_path) {
  const std::string config = name_of(config_path);
  if (config == kMainConfig) return {.name = "lyred", .parent = "", .config = config};
  const std::string instance = config.substr(0, config.rfind('.'));
  return {.name = "lyred@" + instance, .parent = "lyred@", .config = config};
}

std::vector<Finding> check_drop_ins(const std::vector<std::string>& devices,
                                    const machine::Roots& roots, const ServiceFolders& folders,
                                    const DaemonUnit& unit) {
  std::vector<std::string> paths = drop_ins_named(unit.name, folders);
  bool is_installed = has_unit_file(unit.name, folders);
  if (!unit.parent.empty()) {
    for (const auto& path : drop_ins_named(unit.parent, folders)) paths.push_back(path);
    is_installed |= has_unit_file(unit.parent, folders);
  }
  if (!is_installed) return {};
  std::vector<Finding> findings;
  std::vector<std::string> there;
  std::vector<std::string> own;
  std::set<std::string> needed;
  std::string unknown;  // the first such device
  for (const std::string& path : paths) {
    if (machine::exists(path)) there.push_back(name_of(path));
    if (!contains(machine::shipped_drop_ins(), name_of(path))) own.push_back(path);
  }
  for (const std::string& device : devices) {
    if (unknown.empty() && !is_kind_known(device, roots)) unknown = device;
    for (const auto& drop_in : machine::drop_ins_of(machine::port_kind(device, roots))) {
      const bool is_first = needed.insert(drop_in).second;
      if (!is_first || contains(there, drop_in)) continue;
      findings.push_back(check_needed(device, drop_in, own, folders, unit));
    }
  }
  if (unknown.empty()) {
    for (Finding& finding : check_unneeded(needed, folders, unit)) {
      findings.push_back(std::move(finding));
    }
  }
  if (!findings.empty()) return findings;
  if (!unknown.empty()) {
    return {fine("drop-ins", unknown + " is not bound for lyred: what it needs is not known")};
  }
  const std::vector<std::string> names(needed.begin(), needed.end());
  return {fine("drop-ins", names.empty() ? "no port needs one" : joined(names))};
}

std::string run_unit_show(const DaemonUnit& unit) {
  std::string shown;
  run_program({"systemctl", "show", "--property=MainPID,CPUAffinity", unit.name + kSuffix}, shown);
  return shown;
}

std::vector<Finding> check_affinity(const std::string& shown, const std::vector<uint32_t>& cores,
                                    const DaemonUnit& unit) {
  if (property_in(shown, "MainPID") != "0") return {};
  std::string affinity = property_in(shown, "CPUAffinity");
  std::ranges::replace(affinity, ' ', ',');
  const std::vector<uint32_t> allowed = machine::numbers_of_list(affinity);
  if (allowed.empty()) return {};  // the unit has all
  std::set<uint32_t> outside(cores.begin(), cores.end());
  for (const uint32_t core : allowed) outside.erase(core);
  if (outside.empty()) return {};
  const std::string missing =
      machine::list_of_numbers(std::vector<uint32_t>(outside.begin(), outside.end()));
  // systemd merges several lines of it.
  return {problem("cores",
                  "CPUAffinity=" + machine::list_of_numbers(allowed) + " of " + unit.name +
                      kSuffix + " does not have " + missing + " of workers.cores",
                  "lyred does not start: it ends with status 2",
                  "CPUAffinity=" + missing + " under [Service]: systemctl edit " + unit.name)};
}

std::vector<Finding> check_numa(const std::vector<std::string>& devices,
                                const std::vector<uint32_t>& cores, const machine::Roots& roots) {
  std::vector<Finding> findings;
  std::set<int> nodes;
  for (const uint32_t core : cores) nodes.insert(machine::node_of_processor(roots, core));
  if (nodes.empty()) return {};
  for (const std::string& device : devices) {
    const int node = machine::demand_of(roots, device, 0).node;
    if (node >= 0) findings.push_back(check_node(device, node, nodes, cores, roots));
  }
  return findings;
}

}  // namespace lyre::tools
