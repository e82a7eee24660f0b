#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stack/base/mac_address.h"

namespace lyre::io::dpdk {

/// The open sockets of this process in address family `domain` (AF_PACKET, AF_XDP), lowest number
/// first. DPDK's drivers do not return their sockets; a worker needs them to sleep until packets
/// arrive.
std::vector<int> sockets_of(int domain);

/// The open descriptors of this process whose link in /proc/self/fd begins with `prefix`
/// ("/memfd:NAME", "anon_inode:[eventfd]"), lowest number first.
std::vector<int> descriptors_named(std::string_view prefix);

/// The inodes of this process's unix sockets that connected to a listener, even if it has not
/// accepted them yet. Listening sockets and the results of accept() are not included.
std::vector<uint64_t> unix_connections();

/// The MTU of a kernel interface, or 0.
uint32_t interface_mtu(const std::string& interface);

/// Whether frames of a kernel interface have Ethernet's header: not those of IPoIB, WireGuard, or a
/// TUN device.
bool has_ethernet_frames(const std::string& interface);

/// The MAC address of a kernel interface; none if there is no such interface.
std::optional<MacAddress> interface_mac(const std::string& interface);
/// Returns whether it has this address now.
bool set_interface_mac(const std::string& interface, const MacAddress& mac);

/// The kernel's number of an interface, or 0. One that is made anew has another number.
uint32_t interface_index(const std::string& interface);

/// The kernel's number of the XDP program that an interface has, in its driver or before the
/// kernel's network stack; 0 for none. One that a NIC runs itself does not count.
uint32_t xdp_program_of(uint32_t interface_index);

/// To what the kernel merges TCP packets that an interface receives (GRO), at most.
struct MergeLimits {
  uint32_t ipv4_bytes = 0;  ///< 0: the kernel does not say, and has the limit of 64 KiB
  uint32_t ipv6_bytes = 0;
};
MergeLimits merge_limits(uint32_t interface_index);

/// Whether a kernel interface exists, is up, and has a carrier.
bool is_interface_running(const std::string& interface);

/// The real sysfs path of the PCI device of an interface, or of a device by its folder
/// (DeviceArgs::kernel_folder); empty if none.
std::string pci_path_of_interface(const std::string& interface, const std::string& sys = "/sys");
std::string device_path(const std::string& folder);
/// The name of the kernel driver to which the device of a folder is bound; empty if none.
std::string kernel_driver_of(const std::string& folder);
/// The address of the PCI function that has a kernel interface with this MAC address
/// ("00:0d:3a:00:00:01"); empty if none. `sys`: where the kernel's files are.
std::string pci_function_with(const std::string& mac, const std::string& sys = "/sys");

}  // namespace lyre::io::dpdk
