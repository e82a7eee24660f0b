#include "tools/lyre/nic/preparation.h"

#include <algorithm>
#include <optional>

#include "machine/boot_pages.h"
#include "machine/core_choice.h"
#include "machine/default_driver.h"
#include "machine/memory.h"
#include "machine/nic_guard.h"
#include "machine/port_kind.h"
#include "machine/vmbus.h"
#include "tools/lyre/configured.h"
#include "tools/lyre/hugepage_need.h"
#include "tools/lyre/nic/port_section.h"

namespace lyre::tools {
namespace {

constexpr const char* kSettle = "daemon-reload";

std::string drop_in_folder(const PreparedFiles& files) {
  return files.etc + "/systemd/system/lyred.service.d";
}
std::string sysctl_file(const PreparedFiles& files) {
  return files.etc + "/sysctl.d/60-lyre-nic.conf";
}
std::string tmpfiles_file(const PreparedFiles& files) {
  return files.etc + "/tmpfiles.d/lyre-nic.conf";
}
std::string config_file(const PreparedFiles& files) { return files.etc + "/lyre/lyred.toml"; }

/// Those of the size that packet pools take.
uint64_t reserved_pages(const machine::Roots& roots) {
  uint64_t pages = 0;
  for (const machine::HugepagePool& pool : machine::hugepage_pools(roots)) {
    if (pool.page_kib == machine::kPacketPageKib) pages += pool.total;
  }
  return pages;
}

/// The files of reserve_commands() that are there, with what each reserves and the command that
/// gives it back.
struct Reservation {
  std::string file;
  std::optional<uint64_t> pages;
  std::vector<std::string> give_back;
};
std::vector<Reservation> reservations(const PreparedFiles& files) {
  const std::string in_sysctl = sysctl_file(files);
  const std::string in_tmpfiles = tmpfiles_file(files);
  std::vector<Reservation> found;
  if (machine::exists(in_sysctl)) {
    found.push_back({in_sysctl,
                     machine::pages_of_sysctl(in_sysctl),
                     {"sysctl", "--quiet", "vm.nr_hugepages=0"}});
  }
  if (machine::exists(in_tmpfiles)) {
    found.push_back({in_tmpfiles,
                     machine::pages_of_tmpfiles(in_tmpfiles),
                     {"sh", "-c", std::string("echo 0 > ") + machine::kPacketPagesFile}});
  }
  return found;
}

/// No others have reserved some of these pages. The kernel gives fewer than a file asks for where
/// memory is fragmented.
bool are_all_of(const Reservation& reservation, uint64_t reserved) {
  return reserved <= reservation.pages.value_or(0);
}

/// For the workers that cores = "auto" takes for the NIC, as far as the kernel knows its speed.
uint64_t hugepages_of(const NicState& state, const machine::Roots& roots) {
  const InterfaceUse use = interface_use(state.nic.interfaces, roots);
  ConfiguredPackets packets;
  packets.mtu_bytes = std::max(packets.mtu_bytes, use.mtu_bytes);
  const uint32_t workers = std::max(machine::workers_of(use.speed_mbps), 1u);
  return hugepages_mib(workers, packets) * 1024 / machine::kPacketPageKib;
}

/// Now, and after each boot.
Commands reserve_commands(const NicState& state, const machine::Roots& roots,
                          const PreparedFiles& files) {
  const uint64_t pages = hugepages_of(state, roots);
  if (machine::default_pool_kib(roots) == machine::kPacketPageKib) {
    return {
        {"sh", "-c", "echo vm.nr_hugepages=" + std::to_string(pages) + " > " + sysctl_file(files)},
        {"sysctl", "--quiet", "--load", sysctl_file(files)}};
  }
  const std::string line = machine::packet_pages_line(pages);
  return {{"sh", "-c", "echo '" + line + "' > " + tmpfiles_file(files)},
          {"systemd-tmpfiles", "--create", tmpfiles_file(files)}};
}

bool needs_physical_addresses(const NicState& state, const std::string& driver) {
  return !driver.empty() && (driver != "vfio-pci" || !state.nic.has_iommu);
}

/// Also one whose target is gone.
bool is_linked(const std::string& path) {
  return machine::exists(path) || !machine::link_name(path).empty();
}

/// The driver that the NIC was bound to for lyred, now or after a boot; empty: none.
const std::string& bound_driver(const NicState& state) {
  const machine::Nic& nic = state.nic;
  return nic.override_driver.empty() ? nic.boot_driver : nic.override_driver;
}

/// As a port of a NIC on this driver has it; "": the kernel's.
machine::PortKind kind_of(const NicState& state, const std::string& driver) {
  if (driver.empty()) return machine::PortKind::kBesideKernelDriver;
  if (machine::is_on_vmbus(state.nic)) return machine::PortKind::kVmbus;
  return needs_physical_addresses(state, driver) ? machine::PortKind::kWithoutIommu
                                                 : machine::PortKind::kPlain;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_on(const std::string& device, const machine::Nic& nic) {
  const std::string id = machine::vmbus_id_of(device);
  return nic.address == (id.empty() ? machine::pci_address_of(device) : "vmbus:" + id);
}

/// Who besides `left` needs the drop-in: the device of a port, the address of a NIC that is bound,
/// or empty.
std::string other_user(const std::string& drop_in, const std::vector<NicState>& states,
                       const machine::Nic& left, const machine::Roots& roots,
                       const PreparedFiles& files) {
  for (const std::string& device : configured_devices(config_file(files))) {
    if (is_on(device, left)) continue;
    if (contains(machine::drop_ins_of(machine::port_kind(device, roots)), drop_in)) return device;
  }
  for (const NicState& other : states) {
    if (other.nic.address == left.address || bound_driver(other).empty()) continue;
    const auto needed = machine::drop_ins_of(kind_of(other, bound_driver(other)));
    if (contains(needed, drop_in)) return other.nic.address;
  }
  return "";
}

/// What may have been prepared for this NIC.
std::vector<std::string> drop_ins_for(const machine::Nic& nic) {
  if (machine::is_on_vmbus(nic)) return machine::drop_ins_of(machine::PortKind::kVmbus);
  return machine::drop_ins_of(stays_with_kernel(nic) ? machine::PortKind::kBesideKernelDriver
                                                     : machine::PortKind::kWithoutIommu);
}

Commands unlink_commands(const std::vector<std::string>& drop_ins, const PreparedFiles& files) {
  Commands commands;
  for (const std::string& drop_in : drop_ins) {
    const std::string path = drop_in_folder(files) + "/" + drop_in;
    if (is_linked(path)) commands.push_back({"rm", path});
  }
  if (commands.empty()) return commands;
  commands.push_back({"rmdir", "--ignore-fail-on-non-empty", drop_in_folder(files)});
  commands.push_back({"systemctl", kSettle});
  return commands;
}

/// The drop-ins for `left` that nobody else needs.
std::vector<std::string> unneeded_drop_ins(const std::vector<NicState>& states,
                                           const machine::Nic& left, const machine::Roots& roots,
                                           const PreparedFiles& files) {
  std::vector<std::string> unneeded;
  for (const std::string& drop_in : drop_ins_for(left)) {
    if (other_user(drop_in, states, left, roots, files).empty()) unneeded.push_back(drop_in);
  }
  return unneeded;
}

/// Nobody else has a NIC that fetches from physical addresses.
bool are_hugepages_unneeded(const std::vector<std::string>& unneeded_drop_ins) {
  return contains(unneeded_drop_ins,
                  machine::drop_ins_of(machine::PortKind::kWithoutIommu).front());
}

}  // namespace

Commands prepare_commands(const NicState& state, const std::string& driver,
                          const machine::Roots& roots, const PreparedFiles& files) {
  Commands commands;
  const machine::PortKind kind = kind_of(state, driver);
  for (const std::string& drop_in : machine::drop_ins_of(kind)) {
    if (is_linked(drop_in_folder(files) + "/" + drop_in)) continue;
    if (commands.empty()) commands.push_back({"mkdir", "-p", drop_in_folder(files)});
    commands.push_back({"ln", "-s", files.drop_ins + "/" + drop_in, drop_in_folder(files)});
  }
  if (!commands.empty()) commands.push_back({"systemctl", kSettle});
  if (needs_physical_addresses(state, driver) && reserved_pages(roots) == 0) {
    for (auto& command : reserve_commands(state, roots, files))
      commands.push_back(std::move(command));
  }
  return commands;
}

Commands unprepare_commands(const std::vector<NicState>& states, const std::string& name,
                            const machine::Roots& roots, const PreparedFiles& files) {
  const machine::Nic& left = nic_named(states, name).nic;
  const auto unneeded = unneeded_drop_ins(states, left, roots, files);
  Commands commands = unlink_commands(unneeded, files);
  if (!are_hugepages_unneeded(unneeded)) return commands;
  const uint64_t reserved = reserved_pages(roots);
  for (const Reservation& reservation : reservations(files)) {
    commands.push_back({"rm", reservation.file});
    if (reserved > 0 && are_all_of(reservation, reserved))
      commands.push_back(reservation.give_back);
  }
  return commands;
}

std::vector<std::string> kept_preparations(const std::vector<NicState>& states,
                                           const std::string& name, const machine::Roots& roots,
                                           const PreparedFiles& files) {
  const machine::Nic& left = nic_named(states, name).nic;
  std::vector<std::string> lines;
  for (const std::string& drop_in : drop_ins_for(left)) {
    if (!is_linked(drop_in_folder(files) + "/" + drop_in)) continue;
    const std::string user = other_user(drop_in, states, left, roots, files);
    if (!user.empty()) lines.push_back(drop_in + " stays: " + user + " needs it");
  }
  if (!are_hugepages_unneeded(unneeded_drop_ins(states, left, roots, files))) return lines;
  const uint64_t reserved = reserved_pages(roots);
  for (const Reservation& reservation : reservations(files)) {
    if (are_all_of(reservation, reserved)) continue;
    lines.push_back(std::to_string(reserved) + " hugepages of 2 MiB stay: " + reservation.file +
                    " did not reserve so many");
  }
  return lines;
}

}  // namespace lyre::tools
