#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stack/base/result.h"

namespace lyre::io::dpdk {

/// Bytes of a frame beyond its MTU: the Ethernet header and one VLAN tag.
inline constexpr uint32_t kFrameOverheadBytes = 14 + 4;

/// The largest buffer of a memif ring, whose size is a 16-bit number: that of a super-packet.
inline constexpr uint32_t kMemifBufferBytesMax = 65472;

/// The largest id of a memif in a device string: the bits above are the port's own.
inline constexpr uint32_t kMemifIdMax = (1u << 22) - 1;

/// What the options of a virtual device depend on.
struct VirtualDeviceNeeds {
  uint32_t mtu_bytes = 1500;
  uint32_t queue_count = 1;
  bool is_trusted = false;
  bool has_super_packets = false;
};

/// A parsed device string: "net_memif0,role=server,socket=/run/a.sock", "0000:00:06.0",
/// "vmbus:UUID,mac=00:0d:3a:00:00:01".
class DeviceArgs {
 public:
  static DeviceArgs parse(std::string_view device);

  const std::string& name() const { return name_; }
  /// The name without its number ("net_memif"), or the bus of a NIC: "pci", "vmbus".
  std::string_view driver() const;
  bool is_pci() const;
  bool is_vmbus() const;
  /// A NIC of this machine. Other devices are virtual: DPDK makes them, or a PacketPort is one.
  bool is_nic() const { return is_pci() || is_vmbus(); }
  /// A kernel interface by packet sockets of our own: a PacketPort, of which DPDK knows nothing.
  bool is_packet_port() const { return driver() == "net_af_packet"; }
  /// What DPDK and the kernel call the device: the name without "vmbus:".
  std::string device_name() const;
  /// Where the kernel shows a NIC: "/sys/bus/pci/devices/0000:00:06.0".
  std::string kernel_folder(const std::string& sys = "/sys") const;
  const std::vector<std::pair<std::string, std::string>>& options() const { return options_; }
  /// Empty when absent.
  std::string_view value_of(std::string_view key) const;
  bool has(std::string_view key) const;
  /// Adds key=value unless the key is present.
  void set_default(std::string_view key, std::string value);
  /// Adds all values of `other`, also those whose key is present: some drivers take a key twice.
  void append(const DeviceArgs& other);
  void remove(std::string_view key);
  std::string text() const;

 private:
  std::string name_;
  std::vector<std::pair<std::string, std::string>> options_;
};

/// Whether a port can be on the virtual device: its driver is one that Lyre supports, has the
/// options, and, of memif and the busy_budget of AF_XDP, takes their values; and the memif driver
/// of this DPDK can send super-packets where they are asked for. Opens nothing.
/// Fails: EINVAL, one line that says what is wrong and what is allowed.
Status check_virtual_device(std::string_view device, const VirtualDeviceNeeds& needs);

/// Queue pairs that a virtual device can have, as its options say. 0: as many as Lyre asks for.
uint32_t virtual_queue_pairs_max(const DeviceArgs& args);

/// Sets the options that a virtual device needs, and removes socket files that a crashed daemon
/// left. REQUIRES: `args` as they were configured. Fails: an option that cannot work, with the
/// reason.
Status prepare_virtual_device(DeviceArgs& args, const VirtualDeviceNeeds& needs);

}  // namespace lyre::io::dpdk
