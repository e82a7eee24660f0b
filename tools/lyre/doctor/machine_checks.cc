#include "tools/lyre/doctor/machine_checks.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string_view>

#include "machine/default_driver.h"
#include "machine/kernel_modules.h"
#include "machine/memory.h"
#include "machine/nic_guard.h"
#include "machine/vmbus.h"
#include "stack/base/iommu_width.h"
#include "tools/lyre/doctor/pool_holders.h"

namespace lyre::tools {
namespace {

/// epoll_pwait2(), with which a worker sleeps, came with 5.11.
constexpr int kKernelMajor = 5;
constexpr int kKernelMinor = 11;
constexpr const char* kSysctlFile = "/etc/sysctl.d/60-lyre.conf";
/// Not lyre.conf: that would take the place of the package's own file.
constexpr const char* kTmpfilesFile = "/etc/tmpfiles.d/lyre-hugepages.conf";

/// `hardware`: as uname(2) gives it.
bool is_arm(std::string_view hardware) { return hardware == "aarch64"; }

bool is_candidate(const NicState& state) {
  return state.needed_for.empty() && state.refusal.empty() &&
         !machine::default_driver(state.nic).driver.empty();
}

/// A NIC that Lyre could take and that has no IOMMU before it fetches physical addresses.
bool has_nic_without_iommu(const std::vector<NicState>& nics) {
  return std::any_of(nics.begin(), nics.end(), [](const NicState& state) {
    return is_candidate(state) && !state.nic.has_iommu;
  });
}

bool is_port(const machine::Nic& nic, const std::vector<std::string>& devices) {
  return std::ranges::any_of(devices, [&nic](const std::string& device) {
    const std::string id = machine::vmbus_id_of(device);
    return nic.address == (id.empty() ? machine::pci_address_of(device) : "vmbus:" + id);
  });
}

/// With the driver that it has or, while the kernel has it, with the one that suits it.
bool fetches_physical_addresses(const machine::Nic& nic) {
  std::string driver = nic.driver;
  if (!machine::is_user_space_driver(driver)) driver = machine::default_driver(nic).driver;
  return !driver.empty() && (driver != "vfio-pci" || !nic.has_iommu);
}

bool has_module(const machine::Roots& roots, const std::string& name, const std::string& driver) {
  return machine::exists(roots.sys + "/module/" + name) ||
         machine::exists(roots.sys + "/bus/pci/drivers/" + driver);
}

/// True when a line `options MODULE ...` has the option.
bool has_option(const std::string& text, const std::string& module, const std::string& option) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto words = machine::words(line);
    const bool is_of_module = words.size() > 2 && words[0] == "options" && words[1] == module;
    if (is_of_module && std::ranges::find(words, option) != words.end()) return true;
  }
  return false;
}

struct HugepageSum {
  uint64_t reserved_mib = 0;
  uint64_t free_mib = 0;
};

/// Of those that packet pools take.
HugepageSum hugepages(const machine::Roots& roots) {
  HugepageSum sum;
  for (const machine::HugepagePool& pool : machine::hugepage_pools(roots)) {
    if (pool.page_kib != machine::kPacketPageKib) continue;
    sum.reserved_mib += pool.total_mib();
    sum.free_mib += pool.free_mib();
  }
  return sum;
}

uint64_t packet_pages(uint64_t mib) { return mib * 1024 / machine::kPacketPageKib; }

std::string reserve_command(uint64_t mib) {
  return "echo " + std::to_string(packet_pages(mib)) + " > " + machine::kPacketPagesFile;
}

uint64_t mib_of(uint64_t pages) { return pages * machine::kPacketPageKib / 1024; }

std::string name_of(const machine::BootPages& boot) {
  return boot.file.empty() ? "the kernel's command line" : boot.file;
}

/// What a boot reads after the command line. A file that sets another number is changed itself:
/// where it is read last, another file would not count.
std::string reserve_at_boot(const std::optional<machine::BootPages>& boot, uint64_t mib,
                            uint64_t default_kib) {
  using machine::BootSource;
  const uint64_t pages = packet_pages(mib);
  const std::string sysctl = "vm.nr_hugepages = " + std::to_string(pages);
  const std::string tmpfiles = machine::packet_pages_line(pages);
  const bool has_file = boot && !boot->file.empty();
  if (has_file && boot->source == BootSource::kSysctl) {
    return "in " + boot->file + ": " + sysctl + "    # then sysctl --load " + boot->file;
  }
  if (has_file) {
    return "in " + boot->file + ": " + tmpfiles + "    # then systemd-tmpfiles --create " +
           boot->file;
  }
  if (default_kib == machine::kPacketPageKib) {
    return "echo '" + sysctl + "' > " + kSysctlFile + " && sysctl --load " + kSysctlFile;
  }
  return "echo '" + tmpfiles + "' > " + kTmpfilesFile + " && systemd-tmpfiles --create " +
         kTmpfilesFile;
}

std::string listed(const std::vector<PoolHolder>& holders) {
  std::string out;
  for (const PoolHolder& holder : holders) {
    out += (out.empty() ? "" : ", ") + holder.name + " (pid " + std::to_string(holder.pid) + ")";
  }
  return out;
}

/// A client that was stopped keeps the receive pool of a daemon that has ended, and closes it when
/// it goes on. Without one more pages are reserved: another daemon, or another program, uses those
/// that are there.
std::string free_command(const std::vector<PoolHolder>& holders, const HugepageSum& sum,
                         uint64_t needed_mib) {
  std::string pids;
  for (const PoolHolder& holder : holders) {
    if (!holder.is_daemon) pids += " " + std::to_string(holder.pid);
  }
  if (pids.empty()) return reserve_command(sum.reserved_mib - sum.free_mib + needed_mib);
  return "kill -CONT" + pids;
}

/// Enough are reserved, and too few of them are free for the daemon that is to start.
Finding check_taken_hugepages(const machine::Roots& roots, const HugepageSum& sum,
                              const std::string& saw, uint64_t needed_mib, bool is_needed) {
  const std::vector<PoolHolder> holders = pool_holders(roots);
  const std::string by =
      holders.empty() ? "" : "; receive pools of lyred are kept by " + listed(holders);
  const std::string why = std::string("no lyred answers, and one that starts ") +
                          (is_needed ? "needs" : "uses") + " up to " + std::to_string(needed_mib) +
                          " MiB of free ones" +
                          (is_needed ? "" : "; without them it takes ordinary pages") + by;
  return (is_needed ? problem : note)("hugepages", saw, why,
                                      free_command(holders, sum, needed_mib));
}

bool is_on_vfio(const NicState& state) {
  return state.nic.driver == "vfio-pci" && state.nic.has_iommu;
}

bool could_go_to_vfio(const NicState& state) {
  return is_candidate(state) && machine::default_driver(state.nic).driver == "vfio-pci";
}

/// Of the NIC's own unit: a machine has several, and those of a graphics device are often narrow.
uint32_t iommu_bits_of(const machine::Roots& roots, const machine::Nic& nic) {
  return iommu_address_bits(roots.sys + "/bus/pci/devices/" + nic.address + "/iommu");
}

/// A problem for a NIC on vfio-pci, a note for one that may go there.
std::optional<Finding> narrow_iommu(const machine::Roots& roots,
                                    const std::vector<NicState>& nics) {
  for (const bool is_used : {true, false}) {
    for (const NicState& state : nics) {
      if (!(is_used ? is_on_vfio(state) : could_go_to_vfio(state))) continue;
      const uint32_t bits = iommu_bits_of(roots, state.nic);
      if (!is_iommu_narrow(bits)) continue;
      return (is_used ? problem : note)(
          "iommu", state.nic.address + ": addresses of " + std::to_string(bits) + " bits",
          "a NIC on vfio-pci is given the addresses of lyred's memory, which have " +
              std::to_string(kProcessAddressBits) + " bits",
          kNarrowIommuRemedy);
    }
  }
  return std::nullopt;
}

/// In brackets in the kernel's file: "none [integrity] confidentiality". A kernel without lockdown
/// has no such file.
std::string lockdown_mode(const machine::Roots& roots) {
  const std::string line = machine::first_line(roots.sys + "/kernel/security/lockdown");
  const size_t begin = line.find('[');
  const size_t end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos) return "none";
  return line.substr(begin + 1, end - begin - 1);
}

/// Through these DPDK maps a NIC's registers by files of sysfs, which lockdown refuses.
bool maps_by_sysfs(const std::string& driver) {
  return driver == "uio_pci_generic" || driver == "igb_uio";
}

/// The driver of that kind that the NIC has or, while the kernel has it, would get; empty: none.
std::string driver_by_sysfs(const NicState& state, bool is_bound) {
  const bool has_user_space_driver = machine::is_user_space_driver(state.nic.driver);
  if (is_bound) return maps_by_sysfs(state.nic.driver) ? state.nic.driver : "";
  if (has_user_space_driver || !is_candidate(state)) return "";
  const std::string driver = machine::default_driver(state.nic).driver;
  return maps_by_sysfs(driver) ? driver : "";
}

/// The module that a NIC of the kernel's needs and that is not loaded; a NIC without an IOMMU goes
/// before the others.
std::string missing_module(const std::vector<NicState>& nics, bool has_vfio, bool has_uio) {
  std::string missing;
  for (const NicState& state : nics) {
    if (!is_candidate(state) || machine::is_user_space_driver(state.nic.driver)) continue;
    const std::string driver = machine::default_driver(state.nic).driver;
    if (driver == machine::kVmbusUserSpaceDriver) continue;  // driverctl loads it
    if ((driver == "vfio-pci" && has_vfio) || (driver == "uio_pci_generic" && has_uio)) continue;
    if (missing.empty() || driver != "vfio-pci") missing = driver;
  }
  return missing;
}

/// Loads a module of the kernel, after the package that has it where modprobe would not find it.
std::string load_command(const std::string& module, const machine::Roots& roots,
                         const std::string& modules_folder) {
  const std::string load = "modprobe " + module + "    # lyre nic bind does it as well";
  if (machine::is_driver_available(module, roots, modules_folder)) return load;
  const std::string remedy = machine::remedy_for_absent(module, roots);
  return remedy.empty() ? "a kernel that has the module " + module : remedy + " && " + load;
}

/// Binds it again, as it is bound now.
std::string keep_command(const machine::Nic& nic) {
  const bool is_forced = nic.driver == "vfio-pci" && !nic.has_iommu;
  const bool is_on_vmbus = machine::is_on_vmbus(nic);
  return "systemctl stop lyred && lyre nic bind " + nic.address +
         (is_on_vmbus ? "" : " --driver " + nic.driver) + (is_forced ? " --force" : "") +
         " && systemctl start lyred";
}

/// `saw`: what is known of it beside that.
Finding check_refused_nic(const NicState& state, const std::string& saw) {
  constexpr std::string_view kAllowed = ", allowed: ";
  const size_t allowed = state.refusal.rfind(kAllowed);
  return note("nic", saw + ": " + state.refusal.substr(0, allowed),
              "lyred would refuse it, and the kernel would have lost it",
              allowed == std::string::npos
                  ? "another NIC for Lyre"
                  : "if it is for Lyre: " + state.refusal.substr(allowed + kAllowed.size()));
}

Finding check_nic(const NicState& state) {
  const machine::Nic& nic = state.nic;
  std::string saw = nic.address;
  for (const std::string& name : nic.interfaces) saw += " " + name;
  saw += ", driver " + (nic.driver.empty() ? "none" : nic.driver);
  if (nic.numa_node >= 0) saw += ", NUMA node " + std::to_string(nic.numa_node);
  if (!state.needed_for.empty()) return fine("nic", saw + ": carries " + state.needed_for);
  const machine::DriverChoice choice = machine::default_driver(nic);
  if (choice.driver.empty()) return fine("nic", saw + ": " + choice.reason);
  if (const std::string why = machine::why_unsuitable(nic, nic.driver); !why.empty()) {
    return problem(
        "nic", saw, nic.address + " " + why,
        "systemctl stop lyred && lyre nic bind " + nic.address + " && systemctl start lyred");
  }
  if (machine::is_user_space_driver(nic.driver)) {
    if (nic.boot_driver == nic.driver) return fine("nic", saw);
    return note("nic", saw + ": bound until the next boot only",
                "driverctl does not bind it at a boot, so its kernel driver may take it",
                keep_command(nic));
  }
  if (!state.refusal.empty()) return check_refused_nic(state, saw);
  return note("nic", saw,
              "DPDK drives a NIC only through vfio-pci, uio_pci_generic, igb_uio or uio_hv_generic",
              "lyre nic bind " + nic.address + "    # if it is for Lyre: " + choice.driver + ", " +
                  choice.reason);
}

}  // namespace

Finding check_kernel(const std::string& release, std::string_view hardware) {
  int major = 0;
  int minor = 0;
  std::sscanf(release.c_str(), "%d.%d", &major, &minor);
  if (major > kKernelMajor || (major == kKernelMajor && minor >= kKernelMinor)) {
    return fine("kernel", "Linux " + release);
  }
  return problem(
      "kernel", "Linux " + release, "workers sleep in epoll_pwait2(), of Linux 5.11",
      is_arm(hardware) ? "apt install linux-image-arm64" : "apt install linux-image-amd64");
}

Finding check_iommu(const machine::Roots& roots, const std::vector<NicState>& nics,
                    std::string_view hardware) {
  const size_t groups = machine::iommu_group_count(roots);
  if (groups > 0) {
    if (const auto narrow = narrow_iommu(roots, nics)) return *narrow;
    return fine("iommu", std::to_string(groups) + " groups");
  }
  if (!has_nic_without_iommu(nics)) return fine("iommu", "none, and no NIC that needs one");
  return note("iommu", "none",
              "without an IOMMU a NIC reads and writes all memory, and lyred needs SYS_ADMIN for "
              "physical addresses",
              is_arm(hardware)
                  ? "on machines that have one: turn on the SMMU in the firmware, or choose a "
                    "machine type with one (QEMU: -machine virt,iommu=smmuv3)"
                  : "on machines that have one: intel_iommu=on or amd_iommu=on on the kernel's "
                    "command line");
}

/// A problem for a NIC that is bound so, a note for one that may be.
Finding check_lockdown(const machine::Roots& roots, const std::vector<NicState>& nics) {
  const std::string mode = lockdown_mode(roots);
  if (mode == "none") return fine("lockdown", mode);
  for (const bool is_bound : {true, false}) {
    for (const NicState& state : nics) {
      const std::string driver = driver_by_sysfs(state, is_bound);
      if (driver.empty()) continue;
      return (is_bound ? problem : note)(
          "lockdown",
          mode + ": " + state.nic.address + (is_bound ? " is on " : " would go to ") + driver,
          "the kernel loads no module without a signature that it trusts, as igb_uio built on "
          "this host, and maps no registers of a NIC through sysfs",
          state.nic.has_iommu
              ? "lyre nic bind " + state.nic.address + " --driver vfio-pci"
              : "turn off Secure Boot in the firmware, or in the settings of the instance, or use "
                "a machine with an IOMMU");
    }
  }
  return fine("lockdown", mode + ", and no NIC that it matters to");
}

Finding check_driver_modules(const machine::Roots& roots, const std::vector<NicState>& nics,
                             const std::string& modules_folder) {
  const bool has_vfio = has_module(roots, "vfio_pci", "vfio-pci");
  const bool has_uio = has_module(roots, "uio_pci_generic", "uio_pci_generic");
  const bool has_igb = has_module(roots, "igb_uio", "igb_uio");
  std::string saw;
  for (const auto& [is_there, name] :
       {std::pair(has_vfio, "vfio-pci"), std::pair(has_uio, "uio_pci_generic"),
        std::pair(has_igb, "igb_uio")}) {
    if (is_there) saw += (saw.empty() ? "" : ", ") + std::string(name);
  }
  if (saw.empty()) saw = "none loaded";
  const std::string wanted = has_igb ? "" : missing_module(nics, has_vfio, has_uio);
  if (wanted.empty()) return fine("modules", saw);
  if (wanted == "igb_uio") {
    return note("modules", saw,
                "an ENA, or an Intel virtual function (iavf), without an IOMMU is driven through "
                "igb_uio",
                machine::remedy_for(wanted));
  }
  return note(
      "modules", saw,
      wanted == "uio_pci_generic"
          ? "without an IOMMU vfio-pci binds no NIC: the kernels of Debian have no no-IOMMU "
            "mode"
          : "DPDK drives a NIC through a module of the kernel",
      load_command(wanted, roots, modules_folder));
}

/// DKMS builds igb_uio for a kernel when its headers are installed.
std::vector<Finding> check_next_kernel(const std::vector<NicState>& nics,
                                       const std::string& release, const std::string& folder) {
  const auto bound = std::ranges::find_if(
      nics, [](const NicState& state) { return state.nic.boot_driver == "igb_uio"; });
  if (bound == nics.end()) return {};
  const std::string next = machine::newer_kernel(release, folder);
  if (next.empty() || machine::is_module_in(folder + "/" + next, "igb_uio")) return {};
  const std::string later_headers = machine::headers_package(next);
  return {note("modules", "Linux " + next + ", which is installed, has no igb_uio",
               "a boot into it leaves " + bound->nic.address +
                   " with its kernel driver, and lyred does not start",
               "apt install linux-headers-" + next + (later_headers.empty() ? "" : " ") +
                   later_headers + " && dkms autoinstall -k " + next)};
}

/// DPDK's guide of the ENA driver asks for it: the module maps the NIC's registers itself, and
/// uncached, unless it is told to leave that to DPDK.
std::vector<Finding> check_write_combining(const machine::Roots& roots,
                                           const std::vector<NicState>& nics,
                                           const std::string& options) {
  const auto ena = std::ranges::find_if(nics, [](const NicState& state) {
    return machine::is_ena(state.nic) && state.nic.driver == "igb_uio";
  });
  if (ena == nics.end()) return {};
  // Not every version of the module shows its parameter.
  const auto shown = machine::number(roots.sys + "/module/igb_uio/parameters/wc_activate");
  const bool is_configured = has_option(options, "igb_uio", "wc_activate=1");
  if (shown ? *shown == 1 : is_configured) {
    return {fine("combining", ena->nic.address + ": igb_uio with wc_activate=1")};
  }
  return {note("combining",
               ena->nic.address + (shown ? ": igb_uio has wc_activate=" + std::to_string(*shown)
                                         : ": modprobe.d does not set wc_activate=1 for igb_uio"),
               "without write combining each packet that is sent costs the ENA's driver more time",
               "systemctl stop lyred && echo 'options igb_uio wc_activate=1' > "
               "/etc/modprobe.d/igb_uio.conf && modprobe -r igb_uio && modprobe igb_uio && "
               "systemctl start lyred")};
}

Finding check_hugepages(const machine::Roots& roots, const std::vector<NicState>& nics,
                        const std::vector<std::string>& devices, uint64_t needed_mib,
                        bool has_daemon) {
  const HugepageSum sum = hugepages(roots);
  const std::string saw = std::to_string(sum.reserved_mib) + " MiB reserved in pages of 2 MiB, " +
                          std::to_string(sum.free_mib) + " MiB of them free";
  // A daemon that runs has taken its own: free ones tell nothing of it.
  if ((has_daemon ? sum.reserved_mib : sum.free_mib) >= needed_mib) return fine("hugepages", saw);
  const bool is_needed = std::ranges::any_of(nics, [&devices](const NicState& state) {
    return is_port(state.nic, devices) && fetches_physical_addresses(state.nic);
  });
  if (sum.reserved_mib >= needed_mib) {
    return check_taken_hugepages(roots, sum, saw, needed_mib, is_needed);
  }
  const std::string reserve = reserve_command(needed_mib);
  if (sum.reserved_mib > 0) {
    return note("hugepages", saw,
                "the workers of lyred.toml need up to " + std::to_string(needed_mib) + " MiB",
                reserve);
  }
  const std::string why =
      "a NIC without an IOMMU fetches physical addresses, which ordinary pages do not keep";
  if (is_needed) return problem("hugepages", saw, why, reserve);
  if (has_nic_without_iommu(nics)) {
    return note("hugepages", saw, "no port needs them yet: " + why, reserve);
  }
  return note("hugepages", saw, "with ordinary pages a worker misses the TLB more often", reserve);
}

Finding check_hugepages_at_boot(const machine::Roots& roots, const machine::BootFolders& folders,
                                uint64_t needed_mib) {
  const auto boot = machine::pages_at_boot(roots, folders);
  const uint64_t boot_mib = boot ? mib_of(boot->pages) : 0;
  const uint64_t reserved_mib = hugepages(roots).reserved_mib;
  const std::string by = boot ? ", by " + name_of(*boot) : "";
  if (boot_mib >= needed_mib) return fine("boot", std::to_string(boot_mib) + " MiB at boot" + by);
  if (boot_mib == 0 && reserved_mib == 0) {
    return fine("boot", "no hugepages of 2 MiB are reserved, now or at boot");
  }
  // The command also acts at once: it must not take away what is reserved.
  return note(
      "boot",
      boot_mib == 0 ? "hugepages of 2 MiB are not reserved at boot" + by
                    : std::to_string(boot_mib) + " MiB in hugepages of 2 MiB at boot" + by +
                          ", needed: " + std::to_string(needed_mib) + " MiB",
      "after a reboot they are missing, and later memory is too fragmented for them",
      reserve_at_boot(boot, std::max(needed_mib, reserved_mib), machine::default_pool_kib(roots)));
}

Finding check_isolation(const machine::Roots& roots) {
  const std::string isolated = machine::first_line(roots.sys + "/devices/system/cpu/isolated");
  const std::string online = machine::first_line(roots.sys + "/devices/system/cpu/online");
  if (!isolated.empty()) {
    return fine("cores", online + " online, " + isolated +
                             " isolated: no worker comes there from a core that is busy");
  }
  // A service may use an isolated core only where its unit names it.
  return note(
      "cores", online + " online, none isolated",
      "where another thread computes on its core, a worker waits for turns, or runs on other "
      "cores for seconds",
      "for cores of its own: isolcpus=CORES on the kernel's command line, workers.cores = "
      "[CORES], and in lyred's unit CPUAffinity=" +
          online);
}

Finding check_io_uring(const machine::Roots& roots) {
  const auto disabled = machine::number(roots.proc + "/sys/kernel/io_uring_disabled");
  if (disabled.value_or(0) == 0) return fine("io_uring", "allowed");
  return note("io_uring", "kernel.io_uring_disabled = " + std::to_string(*disabled),
              "lyred pins clients' memory through io_uring; without it what they send is copied",
              "sysctl kernel.io_uring_disabled=0");
}

std::vector<Finding> check_nics(const std::vector<NicState>& nics) {
  std::vector<Finding> findings;
  for (const NicState& state : nics) findings.push_back(check_nic(state));
  const bool has_candidate = std::any_of(
      nics.begin(), nics.end(), [](const NicState& state) { return state.needed_for.empty(); });
  if (!has_candidate) {
    findings.push_back(
        note("nic", "no NIC to spare",
             "Lyre takes a NIC away from the kernel, which needs the first one",
             "attach a second NIC, or share the first one with the kernel: in a [[port]] "
             "of lyred.toml device = \"net_af_xdp0,iface=INTERFACE\", force = true "
             "and an address that the kernel does not have, and the drop-in "
             "kernel-interface.conf"));
  }
  return findings;
}

}  // namespace lyre::tools
