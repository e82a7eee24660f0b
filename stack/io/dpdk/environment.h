#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stack/base/result.h"
#include "stack/io/packet_io.h"

namespace lyre::io::dpdk {

/// kAuto uses hugepages when the machine has free ones, and 4 KiB pages otherwise.
enum class Hugepages : uint8_t { kAuto, kYes, kNo };

/// kAuto: virtual addresses where only virtual devices are used, else DPDK's choice.
enum class IovaMode : uint8_t { kAuto, kVirtual, kPhysical };

/// Process-wide options of DPDK.
struct EnvironmentOptions {
  Hugepages hugepages = Hugepages::kAuto;
  IovaMode iova_mode = IovaMode::kAuto;
  std::string file_prefix = "lyre";      ///< distinct for each daemon on one machine
  std::vector<std::string> pci_devices;  ///< addresses for ports; no other device is opened
  uint32_t worker_count = 1;
  uint32_t memory_mib = 0;  ///< DPDK's own heap without hugepages; 0: derived from worker_count
  bool is_debug = false;    ///< DPDK's log goes to stderr from debug level on, else errors only
};

/// The packet memory of one worker.
struct MemoryOptions {
  uint32_t rx_slots = 8192;          ///< packets in the receive pool
  uint32_t mtu_bytes = 1500;         ///< largest IP packet of any port that will use this memory
  std::vector<std::string> devices;  ///< those ports: drivers differ in the room they need
  uint32_t tx_packets = 4096;
  uint32_t tx_pieces = 16384;  ///< pieces of client memory that can be in ports at once
  int numa_node = -1;          ///< -1: any
};

/// One port. `device` is DPDK's name for it: "net_memif0,role=server,socket=/run/a.sock",
/// "net_af_packet0,iface=veth0", "net_af_xdp0,iface=veth0", "net_tap0,iface=lyre0", or the PCI
/// address of a NIC: "0000:00:10.0".
struct PortOptions {
  std::string device;
  uint8_t index = 0;  ///< goes into PacketBuf::port
  uint32_t mtu_bytes = 1500;
  /// The link cannot corrupt packets and the peer is trusted: received checksums count as correct.
  /// A memif port (whose peer is another such daemon) does not compute them either.
  bool is_trusted = false;
  bool use_tso = true;          ///< if the NIC supports it
  uint32_t rx_descriptors = 0;  ///< 0: a default that suits the driver
  uint32_t tx_descriptors = 0;
};

/// Facts about an open port besides its capabilities.
struct PortInfo {
  std::string name;      ///< DPDK's name of the device
  std::string driver;    ///< "net_memif", "net_virtio", ...
  std::string pci_path;  ///< real sysfs path, empty for virtual wires
  int numa_node = -1;
  uint32_t queue_count = 0;
  bool does_dma = false;  ///< reads and writes packet memory without the CPU
  bool has_rss = false;   ///< the NIC spreads flows over the queues
  IoCapabilities capabilities;
};

/// An open port with one queue pair for each memory it was opened with.
/// Thread: each queue belongs to one worker. Everything else belongs to the control thread;
/// start(), stop() and the destructor require that no worker polls.
/// Owner: must be destroyed before the memories and the environment.
class Port {
 public:
  virtual ~Port() = default;
  virtual const PortInfo& info() const = 0;
  /// REQUIRES: worker < info().queue_count.
  virtual PacketIo& queue(uint32_t worker) = 0;
  virtual bool is_link_up() const = 0;
  /// Packets that the device lost for want of a buffer or of room in a ring, in all queues. Some
  /// drivers sleep until the device has answered.
  virtual uint64_t rx_missed() const = 0;
  /// Sets the multicast groups whose frames the device accepts, in place of those set before.
  /// Fails: the device can neither filter by these groups nor accept all multicast.
  virtual Status join(std::span<const MacAddress> groups) = 0;
  /// True when the link is down and the driver will not reconnect by itself: a memif client whose
  /// server has left or not started yet. Makes system calls: not for the packet path.
  virtual bool needs_restart() const = 0;
  /// Stops and starts the port, which releases all buffers that it holds.
  /// Fails: its queues are stopped: they receive nothing and drop what they are given, until a
  /// restart succeeds.
  virtual Status restart() = 0;
};

/// The one DPDK environment of this process.
/// Thread: the control thread. Owner: destroyed last; a process can start DPDK only once.
class Environment {
 public:
  /// Keeps the calling thread's CPU affinity, and ignores SIGPIPE from then on.
  /// Fails: one line that says what is missing.
  static Result<std::unique_ptr<Environment>> start(const EnvironmentOptions& options);

  virtual ~Environment() = default;
  virtual bool has_hugepages() const = 0;
  /// Fails: no memory.
  virtual Result<std::unique_ptr<PacketMemory>> make_memory(uint32_t worker,
                                                            const MemoryOptions& options) = 0;
  /// Opens and starts a port with memories.size() queue pairs; queue i receives into memories[i].
  /// `memories` come from make_memory().
  virtual Result<std::unique_ptr<Port>> open_port(const PortOptions& options,
                                                  std::span<PacketMemory* const> memories) = 0;
  /// Maps client memory for the ports' DMA before workers use it, because mapping may be slow:
  /// their PacketMemory::add_region() then returns at once. REQUIRES: the memory is mapped for
  /// writing, and no other thread of this process accesses it yet. Fails: workers copy its data per
  /// packet.
  virtual Status map_for_ports(const RegionMemory& memory) = 0;
  /// Call after every worker has removed the region, also when it could not be mapped.
  virtual void unmap_for_ports(const RegionMemory& memory) = 0;
  /// Every thread that uses a memory or a queue calls this first, and unregisters before it ends:
  /// DPDK's buffer caches are per thread.
  virtual Status register_worker_thread() = 0;
  virtual void unregister_worker_thread() = 0;
};

}  // namespace lyre::io::dpdk
