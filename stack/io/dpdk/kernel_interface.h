#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lyre::io::dpdk {

/// The open sockets of this process in address family `domain` (AF_PACKET, AF_XDP), oldest number
/// first. Drivers keep their sockets to themselves; this is how packets on them can be waited for.
std::vector<int> sockets_of(int domain);

/// Whether a socket of this process is connected, or waits to be accepted, at the unix socket of
/// that name; a name without a file is one in the abstract namespace.
bool is_connected_to(const std::string& unix_socket);

/// The MTU of a kernel interface, or 0.
uint32_t interface_mtu(const std::string& interface);

/// Whether a kernel interface is there, up, and has a carrier.
bool is_interface_running(const std::string& interface);

/// Real sysfs path of the PCI device behind an interface, or of a PCI address; empty if none.
std::string pci_path_of_interface(const std::string& interface);
std::string pci_path_of_address(const std::string& address);
/// Name of the kernel driver that holds the PCI device; empty if none.
std::string kernel_driver_of(const std::string& address);

}  // namespace lyre::io::dpdk
