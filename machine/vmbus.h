#pragma once

#include <string>
#include <vector>

#include "machine/files.h"

namespace lyre::machine {

/// A network device on the VMbus of Hyper-V ("netvsc"): a virtual NIC of the host's, to which the
/// host may add a virtual function of a physical NIC with the same MAC address.
struct VmbusNic {
  std::string id;                 ///< "f8615163-0000-1000-2000-6045bd7a8d7c"
  std::string driver;             ///< the kernel driver it is bound to; empty: none
  std::string override_driver{};  ///< that the kernel was told to bind, until a boot; empty: none
  std::string boot_driver{};      ///< as Nic::boot_driver
  std::vector<std::string> interfaces;  ///< the kernel's, while it has them
  std::string mac;                      ///< of the first of them; empty: none
  int64_t numa_node = -1;
};

/// The kernel driver through which DPDK drives such a device.
inline constexpr const char* kVmbusUserSpaceDriver = "uio_hv_generic";

/// What lyred calls it: "vmbus:f8615163-...".
std::string device_of(const VmbusNic& nic);

/// All of the machine, by identifier.
std::vector<VmbusNic> vmbus_nics(const Roots& roots);

/// "f8615163-0000-1000-2000-6045bd7a8d7c", in lower case, for a device string "vmbus:..." with or
/// without arguments behind a comma; empty for other ones.
std::string vmbus_id_of(const std::string& device);

/// The kernel's interface of a PCI function that has this MAC address, and the function.
struct FunctionInterface {
  std::string name;     ///< empty: none
  std::string address;  ///< "7870:00:00.0"
  bool is_up = false;
};
FunctionInterface function_with(const Roots& roots, const std::string& mac);

/// The command that binds the device for DPDK, now and after each boot.
std::string vmbus_bind_command(const std::string& id);

}  // namespace lyre::machine
