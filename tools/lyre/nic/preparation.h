#pragma once

#include <string>
#include <vector>

#include "machine/boot_pages.h"
#include "machine/files.h"
#include "tools/lyre/nic/nic.h"

namespace lyre::tools {

/// Where the files are that a preparation writes. Tests have folders of their own.
struct PreparedFiles {
  std::string etc = "/etc";
  std::string drop_ins;                   ///< the folder of those that Lyre ships
  std::string program = "/usr/bin/lyre";  ///< which the boot calls
  machine::BootFolders boot{};            ///< what else reserves hugepages at a boot
};

using Commands = std::vector<std::vector<std::string>>;

/// What a NIC needs beside its driver before the service can use it: a drop-in of lyred.service,
/// one of driverctl's unit that binds it at a boot (boot_binding.h), and, for a NIC that is behind
/// no IOMMU, hugepages at each boot and now. What is there already is left out.
/// Call before the NIC is bound: the kernel forgets its speed, its MTU and its MAC address.
/// `driver`: the NIC's, as bind_command() has it; empty: the kernel's.
Commands prepare_commands(const NicState& state, const std::string& driver,
                          const machine::Roots& roots, const PreparedFiles& files);

/// Takes back what prepare_commands() did, as far as neither another NIC that is bound nor another
/// port of lyred.toml needs it. Hugepages stay where there are more than it asked for, or others
/// had reserved some before.
Commands unprepare_commands(const std::vector<NicState>& states, const std::string& name,
                            const machine::Roots& roots, const PreparedFiles& files);
/// A line for each drop-in that stays for another port of lyred.toml, and one for hugepages that
/// stay. Call before the commands of unprepare_commands() run.
std::vector<std::string> kept_preparations(const std::vector<NicState>& states,
                                           const std::string& name, const machine::Roots& roots,
                                           const PreparedFiles& files);

}  // namespace lyre::tools
