#pragma once

#include <string>

#include "machine/kernel_modules.h"
#include "machine/nics.h"

namespace lyre::machine {

/// The driver to bind a NIC to, and why; see docs/user/clouds.md. It suits every version of DPDK
/// that Lyre is built with.
struct DriverChoice {
  std::string driver;  ///< empty: the NIC stays with its kernel driver
  std::string reason;
};
DriverChoice default_driver(const Nic& nic);

/// The command that provides a driver which the kernel does not bring, for this kernel and for
/// those that upgrades install; empty: it should have it. `release`: as running_release().
std::string remedy_for(const std::string& driver, const std::string& release = running_release());

/// The command that provides a driver which is_driver_available() does not find: as remedy_for(),
/// or the package of a module that the kernel should have. Empty: none is known.
std::string remedy_for_absent(const std::string& driver, const Roots& roots);

/// Azure's NIC. One PCI function of it has a port for each NIC of the machine.
bool is_mana(const Nic& nic);

bool is_on_vmbus(const Nic& nic);

/// True for an Elastic Network Adapter of Amazon.
bool is_ena(const Nic& nic);

/// True for a virtual function of Intel's 700 and 800 series, which DPDK's net_iavf drives.
bool is_iavf(const Nic& nic);

/// Why lyred refuses the NIC with this kernel driver, whichever the version of DPDK is: "is ...,
/// allowed: ..."; empty: it does not.
std::string why_unsuitable(const Nic& nic, const std::string& driver);

}  // namespace lyre::machine
