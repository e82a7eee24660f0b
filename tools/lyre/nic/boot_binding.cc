#include "tools/lyre/nic/boot_binding.h"

#include <algorithm>

#include "machine/vmbus.h"
#include "tools/lyre/nic/nic.h"

namespace lyre::tools {
namespace {

/// Empty: the NIC that is wanted.
std::string what_lies_there(const std::vector<machine::Nic>& nics, const NicIdentity& wanted) {
  const auto it = std::ranges::find(nics, wanted.address, &machine::Nic::address);
  if (it == nics.end()) return "no Ethernet NIC is there";
  if (ids_of(*it) != wanted.ids) return ids_of(*it) + " is there";
  if (wanted.mac.empty() || it->mac.empty() || it->mac == wanted.mac) return "";
  return "one with MAC address " + it->mac + " is there";
}

}  // namespace

std::string boot_drop_in_of(const machine::Nic& nic, const std::string& etc) {
  const std::string id = machine::vmbus_id_of(nic.address);
  return id.empty() ? machine::boot_drop_in(etc, "pci", nic.address)
                    : machine::boot_drop_in(etc, "vmbus", id);
}

/// A UUID of the VMbus is that of one NIC, so nothing has to be asked there.
std::vector<std::string> boot_drop_in_lines(const machine::Nic& nic, const std::string& program) {
  const std::string id = machine::vmbus_id_of(nic.address);
  if (!id.empty()) {
    return {"[Service]",
            "ExecStart=", "ExecStart=/usr/sbin/driverctl -b vmbus load-override " + id};
  }
  return {"[Service]", "ExecCondition=" + program + " nic is-at " + nic.address + " " +
                           ids_of(nic) + (nic.mac.empty() ? "" : " " + nic.mac)};
}

std::string why_not_at(const std::vector<machine::Nic>& nics, const NicIdentity& wanted) {
  const std::string there = what_lies_there(nics, wanted);
  if (there.empty()) return "";
  return wanted.address + " is not bound: `lyre nic bind` was for " + wanted.ids +
         (wanted.mac.empty() ? "" : " with MAC address " + wanted.mac) + ", and " + there +
         ", allowed: rm /etc/driverctl.d/pci-" + wanted.address +
         ", and lyre nic bind for the NIC at its present address";
}

}  // namespace lyre::tools
