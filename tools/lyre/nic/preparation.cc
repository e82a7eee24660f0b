#include "tools/lyre/nic/preparation.h"

#include <algorithm>

#include "machine/memory.h"

namespace lyre::tools {
namespace {

constexpr const char* kWithoutIommu = "no-iommu.conf";
constexpr const char* kBesideKernel = "beside-kernel-driver.conf";
constexpr const char* kSettle = "daemon-reload";
/// Enough for one worker with default settings.
constexpr uint64_t kHugepagesKib = 384 << 10;
/// Of a machine that does not say its own.
constexpr uint64_t kDefaultPageKib = 2048;

std::string drop_in_folder(const PreparedFiles& files) {
  return files.etc + "/systemd/system/lyred.service.d";
}
std::string sysctl_file(const PreparedFiles& files) {
  return files.etc + "/sysctl.d/60-lyre-nic.conf";
}

/// That vm.nr_hugepages counts.
uint64_t default_hugepage_kib(const machine::Roots& roots) {
  for (const std::string& line : machine::lines(roots.proc + "/meminfo")) {
    const auto words = machine::words(line);
    if (words.size() > 1 && words[0] == "Hugepagesize:") return std::stoull(words[1]);
  }
  return kDefaultPageKib;
}

bool has_hugepages(const machine::Roots& roots) {
  return std::ranges::any_of(machine::hugepage_pools(roots),
                             [](const machine::HugepagePool& pool) { return pool.total > 0; });
}

bool needs_physical_addresses(const NicState& state, const std::string& driver) {
  return !driver.empty() && (driver != "vfio-pci" || !state.nic.has_iommu);
}

/// Also one whose target is gone.
bool is_linked(const std::string& path) {
  return machine::exists(path) || !machine::link_name(path).empty();
}

/// The NIC is lyred's, by driverctl.
bool is_taken(const NicState& state) { return !state.nic.override_driver.empty(); }

}  // namespace

Commands prepare_commands(const NicState& state, const std::string& driver,
                          const machine::Roots& roots, const PreparedFiles& files) {
  Commands commands;
  const bool is_physical = needs_physical_addresses(state, driver);
  const std::string drop_in = is_physical ? kWithoutIommu : driver.empty() ? kBesideKernel : "";
  if (!drop_in.empty() && !is_linked(drop_in_folder(files) + "/" + drop_in)) {
    commands.push_back({"mkdir", "-p", drop_in_folder(files)});
    commands.push_back({"ln", "-s", files.drop_ins + "/" + drop_in, drop_in_folder(files)});
    commands.push_back({"systemctl", kSettle});
  }
  if (is_physical && !has_hugepages(roots)) {
    const uint64_t page_kib = default_hugepage_kib(roots);
    const std::string setting =
        "vm.nr_hugepages=" + std::to_string((kHugepagesKib + page_kib - 1) / page_kib);
    commands.push_back({"sh", "-c", "echo " + setting + " > " + sysctl_file(files)});
    commands.push_back({"sysctl", "--quiet", "--load", sysctl_file(files)});
  }
  return commands;
}

Commands unprepare_commands(const std::vector<NicState>& states, const std::string& name,
                            const PreparedFiles& files) {
  const NicState& left = nic_named(states, name);
  const bool is_needed = std::ranges::any_of(states, [&](const NicState& other) {
    return other.nic.address != left.nic.address && is_taken(other) &&
           needs_physical_addresses(other, other.nic.override_driver);
  });
  if (is_needed) return {};
  Commands commands;
  const std::string drop_in = drop_in_folder(files) + "/" + kWithoutIommu;
  if (is_linked(drop_in)) {
    commands.push_back({"rm", drop_in});
    commands.push_back({"rmdir", "--ignore-fail-on-non-empty", drop_in_folder(files)});
    commands.push_back({"systemctl", kSettle});
  }
  if (machine::exists(sysctl_file(files))) {
    commands.push_back({"rm", sysctl_file(files)});
    commands.push_back({"sysctl", "--quiet", "vm.nr_hugepages=0"});
  }
  return commands;
}

}  // namespace lyre::tools
