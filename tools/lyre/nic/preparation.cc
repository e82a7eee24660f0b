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
#include "tools/lyre/nic/boot_binding.h"
#include "tools/lyre/nic/port_section.h"

namespace lyre::tools {
namespace {

constexpr const char* kSettle = "daemon-reload";
/// A line of the file that reserves hugepages at a boot: they were not raised when it was written.
constexpr const char* kNotRaised = "# others had reserved hugepages when this was written";

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

/// Writes a file of these lines, which have no character that is special between double quotes.
std::vector<std::string> write_command(const std::vector<std::string>& lines,
                                       const std::string& file) {
  std::string script = "printf \"%s\\n\"";
  for (const std::string& line : lines) script += " \"" + line + "\"";
  return {"sh", "-c", script + " > " + file};
}

/// Those of the size that packet pools take, now.
std::vector<std::string> set_pages_command(uint64_t pages) {
  return {"sh", "-c", "echo " + std::to_string(pages) + " > " + machine::kPacketPagesFile};
}

void append(Commands& commands, Commands more) {
  for (auto& command : more) commands.push_back(std::move(command));
}

/// The files of reserve_at_boot() that are there, with what each reserves.
struct Reservation {
  std::string file;
  std::optional<uint64_t> pages;
  bool was_raised = true;  ///< also when the file was written
};
bool was_raised(const std::string& file) {
  const std::vector<std::string> lines = machine::lines(file);
  return std::ranges::find(lines, kNotRaised) == lines.end();
}
std::vector<Reservation> reservations(const PreparedFiles& files) {
  const std::string in_sysctl = sysctl_file(files);
  const std::string in_tmpfiles = tmpfiles_file(files);
  std::vector<Reservation> found;
  if (machine::exists(in_sysctl)) {
    found.push_back({in_sysctl, machine::pages_of_sysctl(in_sysctl), was_raised(in_sysctl)});
  }
  if (machine::exists(in_tmpfiles)) {
    found.push_back(
        {in_tmpfiles, machine::pages_of_tmpfiles(in_tmpfiles), was_raised(in_tmpfiles)});
  }
  return found;
}

/// No others have reserved some of these pages. The kernel gives fewer than a file asks for where
/// memory is fragmented.
bool are_all_of(const Reservation& reservation, uint64_t reserved) {
  return reservation.was_raised && reserved <= reservation.pages.value_or(0);
}

/// For the workers that cores = "auto" takes for the NIC, as far as the kernel knows its speed.
uint64_t hugepages_of(const NicState& state, const machine::Roots& roots) {
  const InterfaceUse use = interface_use(state.nic.interfaces, roots);
  ConfiguredPackets packets;
  packets.mtu_bytes = std::max(packets.mtu_bytes, use.mtu_bytes);
  const uint32_t workers = std::max(machine::workers_of(use.speed_mbps), 1u);
  return hugepages_mib(workers, packets) * 1024 / machine::kPacketPageKib;
}

/// Not fewer than are reserved `now`, by others: a later boot has both needs.
std::vector<std::string> reserve_at_boot(uint64_t needed, uint64_t now, const machine::Roots& roots,
                                         const PreparedFiles& files) {
  const uint64_t pages = std::max(needed, now);
  const bool is_default = machine::default_pool_kib(roots) == machine::kPacketPageKib;
  std::vector<std::string> lines;
  if (now > 0) lines.push_back(kNotRaised);
  lines.push_back(is_default ? "vm.nr_hugepages=" + std::to_string(pages)
                             : machine::packet_pages_line(pages));
  return write_command(lines, is_default ? sysctl_file(files) : tmpfiles_file(files));
}

/// After each boot, unless a boot reserves some; now, unless some are reserved.
Commands reserve_commands(const NicState& state, const machine::Roots& roots,
                          const PreparedFiles& files) {
  const uint64_t needed = hugepages_of(state, roots);
  const uint64_t now = reserved_pages(roots);
  const auto at_boot = machine::pages_at_boot(roots, files.boot);
  Commands commands;
  if (!at_boot || at_boot->pages == 0) {
    commands.push_back(reserve_at_boot(needed, now, roots, files));
  }
  if (now == 0) commands.push_back(set_pages_command(needed));
  return commands;
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

std::string folder_of(const std::string& file) { return file.substr(0, file.rfind('/')); }

Commands link_commands(const std::vector<std::string>& drop_ins, const PreparedFiles& files) {
  Commands commands;
  for (const std::string& drop_in : drop_ins) {
    if (is_linked(drop_in_folder(files) + "/" + drop_in)) continue;
    if (commands.empty()) commands.push_back({"mkdir", "-p", drop_in_folder(files)});
    commands.push_back({"ln", "-s", files.drop_ins + "/" + drop_in, drop_in_folder(files)});
  }
  return commands;
}

Commands unlink_commands(const std::vector<std::string>& drop_ins, const PreparedFiles& files) {
  Commands commands;
  for (const std::string& drop_in : drop_ins) {
    const std::string path = drop_in_folder(files) + "/" + drop_in;
    if (is_linked(path)) commands.push_back({"rm", path});
  }
  if (commands.empty()) return commands;
  commands.push_back({"rmdir", "--ignore-fail-on-non-empty", drop_in_folder(files)});
  return commands;
}

/// The drop-in of driverctl's unit that is there may know more, the MAC address: a NIC that is
/// bound has no interface.
Commands bind_at_boot_commands(const machine::Nic& nic, const PreparedFiles& files) {
  const std::string file = boot_drop_in_of(nic, files.etc);
  const std::vector<std::string> wanted = boot_drop_in_lines(nic, files.program);
  const auto says = [](const std::string& line, const std::string& begin) {
    return line.starts_with(begin);
  };
  if (std::ranges::equal(machine::lines(file), wanted, says)) return {};
  return {{"mkdir", "-p", folder_of(file)}, write_command(wanted, file)};
}

Commands unbind_at_boot_commands(const machine::Nic& nic, const PreparedFiles& files) {
  const std::string file = boot_drop_in_of(nic, files.etc);
  if (!machine::exists(file)) return {};
  return {{"rm", file}, {"rmdir", "--ignore-fail-on-non-empty", folder_of(file)}};
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
  Commands commands = link_commands(machine::drop_ins_of(kind_of(state, driver)), files);
  if (!driver.empty()) append(commands, bind_at_boot_commands(state.nic, files));
  if (!commands.empty()) commands.push_back({"systemctl", kSettle});
  if (needs_physical_addresses(state, driver)) {
    append(commands, reserve_commands(state, roots, files));
  }
  return commands;
}

Commands unprepare_commands(const std::vector<NicState>& states, const std::string& name,
                            const machine::Roots& roots, const PreparedFiles& files) {
  const machine::Nic& left = nic_named(states, name).nic;
  const auto unneeded = unneeded_drop_ins(states, left, roots, files);
  Commands commands = unlink_commands(unneeded, files);
  append(commands, unbind_at_boot_commands(left, files));
  if (!commands.empty()) commands.push_back({"systemctl", kSettle});
  if (!are_hugepages_unneeded(unneeded)) return commands;
  const uint64_t reserved = reserved_pages(roots);
  for (const Reservation& reservation : reservations(files)) {
    commands.push_back({"rm", reservation.file});
    if (reserved > 0 && are_all_of(reservation, reserved)) commands.push_back(set_pages_command(0));
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
    if (reserved == 0 || are_all_of(reservation, reserved)) continue;
    const char* why = reservation.was_raised ? " did not reserve so many"
                                             : " was written when others had reserved some";
    lines.push_back(std::to_string(reserved) + " hugepages of 2 MiB stay: " + reservation.file +
                    why);
  }
  return lines;
}

}  // namespace lyre::tools
