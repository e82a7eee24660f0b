#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stack/base/mac_address.h"
#include "stack/base/result.h"

namespace lyre::io::dpdk {

/// A socket by which the kernel is asked about the interfaces of the network namespace in which it
/// was made. A port keeps one, because a process at its limit of descriptors cannot make another.
/// Thread: any.
class InterfaceSocket {
 public:
  InterfaceSocket();
  ~InterfaceSocket();
  InterfaceSocket(const InterfaceSocket&) = delete;
  InterfaceSocket& operator=(const InterfaceSocket&) = delete;

  /// Fails: no descriptor, or no memory. All questions fail then.
  const Status& status() const { return status_; }
  int fd() const { return fd_; }

 private:
  int fd_;
  Status status_;
};

/// The open sockets of this process in address family `domain` (AF_PACKET, AF_XDP), lowest number
/// first. DPDK's drivers do not return their sockets; a worker needs them to sleep until packets
/// arrive. None: not known, because looking takes a descriptor.
std::optional<std::vector<int>> sockets_of(int domain);

/// The open descriptors of this process whose link in /proc/self/fd begins with `prefix`
/// ("/memfd:NAME", "anon_inode:[eventfd]"), lowest number first. Empty also where they are not
/// known.
std::vector<int> descriptors_named(std::string_view prefix);

/// The inodes of this process's unix sockets that connected to a listener, even if it has not
/// accepted them yet. Listening sockets and the results of accept() are not included. None: not
/// known, as with sockets_of().
std::optional<std::vector<uint64_t>> unix_connections();

/// The MTU of a kernel interface, or 0.
uint32_t interface_mtu(const std::string& interface, const InterfaceSocket& by = {});

/// Whether frames of a kernel interface have Ethernet's header: not those of IPoIB, WireGuard, or a
/// TUN device.
bool has_ethernet_frames(const std::string& interface, const InterfaceSocket& by = {});

/// The MAC address of a kernel interface; none if there is no such interface.
std::optional<MacAddress> interface_mac(const std::string& interface,
                                        const InterfaceSocket& by = {});
/// Returns whether it has this address now.
bool set_interface_mac(const std::string& interface, const MacAddress& mac,
                       const InterfaceSocket& by);

/// The kernel's number of an interface, or 0. One that is made anew has another number.
uint32_t interface_index(const std::string& interface, const InterfaceSocket& by = {});
/// The kernel says that `interface` does not exist, or has another number. An answer that cannot be
/// had is false.
bool is_interface_gone(const std::string& interface, uint32_t index, const InterfaceSocket& by);
/// The kernel says that no interface has this number. An answer that cannot be had is false.
bool is_index_gone(uint32_t index);

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
bool is_interface_running(const std::string& interface, const InterfaceSocket& by);

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
