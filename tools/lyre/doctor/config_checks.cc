#include "tools/lyre/doctor/config_checks.h"

#include <algorithm>
#include <set>

#include "machine/core_choice.h"
#include "machine/port_kind.h"
#include "machine/processors.h"

namespace lyre::tools {
namespace {

constexpr const char* kUnit = "/lyred.service";

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

/// The drop-ins that systemd reads, as paths.
std::vector<std::string> drop_ins_of_service(const ServiceFolders& folders) {
  std::vector<std::string> paths;
  for (const std::string& folder : folders.units) {
    const std::string drop_ins = folder + kUnit + ".d";
    for (const std::string& name : machine::entries(drop_ins)) {
      if (name.ends_with(".conf")) paths.push_back(drop_ins + "/" + name);
    }
  }
  return paths;
}

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string link_command(const std::string& drop_in, const ServiceFolders& folders) {
  const std::string folder = folders.units.front() + kUnit + ".d";
  return "mkdir -p " + folder + " && ln -sf " + folders.drop_ins + "/" + drop_in + " " + folder +
         " && systemctl daemon-reload && systemctl restart lyred";
}

/// `own`: drop-ins of the operator, which may give the same.
Finding check_needed(const std::string& device, const std::string& drop_in,
                     const std::vector<std::string>& own, const ServiceFolders& folders) {
  const std::string saw = device + " needs " + drop_in + ", which lyred.service does not have";
  if (own.empty()) {
    return problem("drop-ins", saw, "lyred may not open the port, and ends with status 2",
                   link_command(drop_in, folders));
  }
  return note("drop-ins", saw,
              "unless " + joined(own) + " gives the same, lyred ends with status 2",
              link_command(drop_in, folders));
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

std::vector<Finding> check_drop_ins(const std::vector<std::string>& devices,
                                    const machine::Roots& roots, const ServiceFolders& folders) {
  const bool is_installed = std::ranges::any_of(
      folders.units, [](const auto& folder) { return machine::exists(folder + kUnit); });
  if (!is_installed) return {};
  std::vector<Finding> findings;
  std::vector<std::string> there;
  std::vector<std::string> own;
  std::set<std::string> needed;
  for (const std::string& path : drop_ins_of_service(folders)) {
    if (machine::exists(path)) there.push_back(name_of(path));
    if (!contains(machine::shipped_drop_ins(), name_of(path))) own.push_back(path);
  }
  for (const std::string& device : devices) {
    for (const auto& drop_in : machine::drop_ins_of(machine::port_kind(device, roots))) {
      const bool is_first = needed.insert(drop_in).second;
      if (!is_first || contains(there, drop_in)) continue;
      findings.push_back(check_needed(device, drop_in, own, folders));
    }
  }
  for (const std::string& path : drop_ins_of_service(folders)) {
    if (contains(own, path) || needed.count(name_of(path)) > 0) continue;
    findings.push_back(note("drop-ins", path + ": no port of lyred.toml needs it",
                            "the service may do more than it needs to",
                            "rm " + path + " && systemctl daemon-reload"));
  }
  if (!findings.empty()) return findings;
  const std::vector<std::string> names(needed.begin(), needed.end());
  return {fine("drop-ins", names.empty() ? "no port needs one" : joined(names))};
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
