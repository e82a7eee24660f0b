#pragma once

#include <string>
#include <vector>

#include "machine/nics.h"

/// How driverctl binds a NIC at a boot. Its unit, driverctl@BUS-DEVICE.service, knows the address
/// only, where another device may lie after the machine was changed. A drop-in of the unit makes it
/// ask `lyre nic is-at` before, and names a NIC of the VMbus as driverctl needs it.
namespace lyre::tools {

/// The path of the drop-in below `etc`.
std::string boot_drop_in_of(const machine::Nic& nic, const std::string& etc);

/// Its lines. `program`: the path of `lyre`. The MAC address is the last word of its line, where
/// it is known.
std::vector<std::string> boot_drop_in_lines(const machine::Nic& nic, const std::string& program);

/// What a boot is to find at an address of the PCI bus.
struct NicIdentity {
  std::string address;  ///< "0000:00:06.0"
  std::string ids;      ///< "1d0f:ec20"
  std::string mac;      ///< empty: any
};
/// Why the NIC does not lie there, in one line; empty: it does. MAC addresses are compared where
/// the kernel has an interface of the NIC.
std::string why_not_at(const std::vector<machine::Nic>& nics, const NicIdentity& wanted);

}  // namespace lyre::tools
