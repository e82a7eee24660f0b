#pragma once

#include <string>
#include <vector>

#include "machine/nic_guard.h"
#include "machine/nics.h"

/// `lyre nic`: which NICs there are, and which kernel driver each is bound to. The binding itself
/// and its return after a reboot are driverctl's.
namespace lyre::tools {

/// What `lyre nic list` knows of a NIC.
struct NicState {
  machine::Nic nic;
  std::string device;      ///< for lyred.toml
  std::string needed_for;  ///< what the machine would lose with it; empty: nothing
  std::string refusal{};   ///< why lyred would not drive it, by ask_lyred(); empty: not known to
};
std::vector<NicState> nic_states(const machine::Roots& roots, const machine::NicGuard& guard);

/// Asks the lyred that is installed which NICs it would refuse once they are bound: its version of
/// DPDK may have no driver that works.
void ask_lyred(std::vector<NicState>& states);
/// Takes over its answer: a line "lyred: ADDRESS: why" for each NIC.
void note_refusals(std::vector<NicState>& states, const std::string& output);

/// "1d0f:ec20", vendor and device of a NIC of the PCI bus; else "netvsc".
std::string ids_of(const machine::Nic& nic);

/// Whether a port's `device` of lyred.toml is on this NIC.
bool is_on(const std::string& device, const machine::Nic& nic);

std::string nics_text(const std::vector<NicState>& states);
std::string nics_json(const std::vector<NicState>& states);

struct BindRequest {
  std::string name;    ///< a PCI address, "vmbus:UUID", or the name of a kernel interface
  std::string driver;  ///< empty: by the NIC
  bool is_forced = false;
};

/// The NIC with this address or interface. Fails: throws Failure with those that are there.
const NicState& nic_named(const std::vector<NicState>& states, const std::string& name);

/// True for a NIC that its kernel driver has, now and after a boot.
bool is_with_kernel(const machine::Nic& nic);

/// True for a NIC that DPDK drives beside its kernel driver, and that is bound to no other one.
bool stays_with_kernel(const machine::Nic& nic);

/// The command that binds a NIC for lyred now and after each boot, the driver as its last word, or
/// the one that gives it back to the kernel. Changes nothing. Empty: the NIC stays with its kernel
/// driver, or is with it, now and after a boot.
/// Fails: throws Failure: no such NIC, it must stay with its kernel driver, or lyred would refuse
/// it.
std::vector<std::string> bind_command(const std::vector<NicState>& states,
                                      const BindRequest& request);
/// Throws Failure where the kernel has no `driver` to bind the NIC to: driverctl would fail.
/// `modules_folder`: as machine::modules_folder().
void check_driver_is_available(const machine::Nic& nic, const std::string& driver,
                               const machine::Roots& roots, const std::string& modules_folder);
/// After the bind command failed: what became of the NIC with this address, as the states are
/// `now`, and how `driver` is provided. `section`: how it was configured before.
std::string after_failed_bind(const std::vector<NicState>& now, const std::string& address,
                              const std::string& driver, const std::string& section);
std::vector<std::string> unbind_command(const std::vector<NicState>& states,
                                        const std::string& name);

/// Throws Failure where the NIC is one of `devices`, of a daemon that runs: two drivers would use
/// it.
void refuse_in_use(const machine::Nic& nic, const std::vector<std::string>& devices);
/// A line for each of the devices of a configuration, the file at `path`, that is on this NIC.
std::vector<std::string> sections_left(const machine::Nic& nic, const std::string& path,
                                       const std::vector<std::string>& devices);

}  // namespace lyre::tools
