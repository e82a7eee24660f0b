#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lyre::io::dpdk {

/// The open sockets of this process in address family `domain` (AF_PACKET, AF_XDP), oldest number
/// first. Drivers keep their sockets to themselves; this is how packets on them can be waited for.
std::vector<int> sockets_of(int domain);

/// The inodes of this process's unix sockets that it has connected to a listener, who need not have
/// accepted them yet. Listeners and what they accepted are none of these.
std::vector<uint64_t> unix_connections();

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
