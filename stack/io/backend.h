#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stack/base/ip_address.h"
#include "stack/base/mac_address.h"
#include "stack/base/nanos.h"
#include "stack/base/result.h"
#include "stack/io/packet_io.h"

/// The control-plane interface of a NIC API. Workers use PacketIo and PacketMemory directly for
/// packets: nothing here is called per packet.
namespace lyre::io {

/// Pieces of client memory that can be in the ports of one worker at once.
inline constexpr uint32_t kPiecesInPortsMax = 16384;

/// A region window begins and ends at multiples of it: the page sizes of region memory divide it.
inline constexpr uint64_t kRegionWindowPageBytes = uint64_t{1} << 30;

/// The packet memory of one worker.
struct MemoryOptions {
  uint32_t rx_slots = 8192;          ///< packets in the receive pool
  uint32_t mtu_bytes = 1500;         ///< largest IP packet of any port that will use this memory
  std::vector<std::string> devices;  ///< those ports: drivers differ in the room they need
  bool has_super_packets = false;    ///< of one of them: see PortOptions. Kernel interfaces by
                                     ///< packet sockets have them without it
  uint32_t tx_packets = 4096;
  uint32_t tx_pieces = kPiecesInPortsMax;  ///< at most that
  int numa_node = -1;                      ///< -1: any
};

struct PortOptions {
  std::string device;  ///< the backend's name for it: examples are in stack/io/dpdk/environment.h
  uint8_t index = 0;   ///< goes into PacketBuf::port
  uint32_t mtu_bytes = 1500;
  /// The port's own: a port that shares an interface with the kernel takes the packets of these and
  /// leaves it the others. Empty: it takes all.
  std::vector<IpAddress> addresses;
  /// The link cannot corrupt packets and the peer is trusted: received checksums count as correct.
  /// A port whose peer is another such daemon does not compute them either.
  bool is_trusted = false;
  bool use_tso = true;  ///< if the NIC supports it
  /// A virtual wire: TCP packets of up to 64 KiB cross it uncut, in both directions. The peer must
  /// do the same. REQUIRES: is_trusted. A NIC: such packets are taken from the host (LRO). Packet
  /// sockets send and take them in any case. Fails: the device carries no such packets.
  bool has_super_packets = false;
  /// The address that an earlier process had, for drivers that draw one.
  std::optional<MacAddress> mac;
  /// The RSS key that it had, for drivers that draw one. Empty: none is known.
  std::vector<uint8_t> rss_key{};
  uint32_t rx_slots_max = 0;    ///< of each memory, for the receive ring; 0: as many as it likes
  uint32_t rx_descriptors = 0;  ///< 0: a default that suits the driver
  uint32_t tx_descriptors = 0;
};

/// Speeds of a port. 0: unknown.
struct PortSpeed {
  uint32_t port_mbps = 0;
  uint32_t flow_mbps = 0;  ///< most that the network lets one flow (5-tuple) have
};

/// The state of a port's device. All but the first count as a link that is down.
enum class PortState : uint8_t {
  kRunning,
  kResetting,   ///< its driver asked for a reset: restart() does it
  kRecovering,  ///< it resets itself
  kAway,        ///< it was taken away: restart() closes it, and opens it when it is back
  kDraining,    ///< it frees nothing of what it was given to send: restart() takes that back
};

/// A counter that only some drivers have.
struct DeviceCounter {
  std::string name;  ///< as the driver has it
  uint64_t value = 0;
};

/// Facts about an open port besides its capabilities.
struct PortInfo {
  std::string name;      ///< the backend's name of the device
  std::string driver;    ///< "net_memif", "net_virtio", ...
  std::string pci_path;  ///< real sysfs path, empty for virtual wires
  int numa_node = -1;
  uint32_t queue_count = 0;
  bool does_dma = false;           ///< reads and writes packet memory without the CPU
  bool has_rss = false;            ///< the NIC spreads flows over the queues
  std::vector<uint8_t> rss_key{};  ///< its key; empty: the driver does not tell it
  /// Its driver frees packets twice when it closes, into pools that other ports use: only a process
  /// that ends may close it.
  bool frees_twice_when_closed = false;
  std::string warning;  ///< what makes the port work badly, and the cure; empty: nothing
  std::string remark;   ///< what its driver costs and nobody need mend; empty: nothing
  IoCapabilities capabilities;
};

/// An open port with one queue pair for each memory it was opened with.
/// Thread: each queue belongs to one worker. Everything else belongs to the control thread; the
/// destructor requires that no worker polls.
/// Owner: must be destroyed before the memories and the backend.
class Port {
 public:
  virtual ~Port() = default;
  virtual const PortInfo& info() const = 0;
  /// REQUIRES: worker < info().queue_count.
  virtual PacketIo& queue(uint32_t worker) = 0;
  virtual bool is_link_up() const = 0;
  virtual PortState state() const = 0;
  /// Runs the timers of drivers that have some, and looks whether the device is there and frees
  /// what it sent. Call once a second or more often.
  virtual void look(Nanos now) = 0;
  /// The link came up. Prepares the memory that the driver shares with its peer, if any, so that
  /// packets wait for no page fault.
  virtual void on_link_up() {}
  /// As the device and its driver say now: some know their speed only while the link is up.
  virtual PortSpeed speed() const = 0;
  /// Packets that the device lost for want of a buffer or of room in a ring, in all queues. Some
  /// drivers sleep until the device has answered.
  virtual uint64_t rx_missed() = 0;
  /// The counters of its driver that are not zero, since the device was opened. As slow as
  /// rx_missed().
  virtual std::vector<DeviceCounter> device_counters() const = 0;
  /// Sets the multicast groups whose frames the device accepts, in place of those set before.
  /// Fails: the device can neither filter by these groups nor accept all multicast.
  virtual Status join(std::span<const MacAddress> groups) = 0;
  /// True when the device has to be reset, closed or opened, or the link is down and the driver
  /// will not reconnect by itself: a memif client whose server has left or not started yet.
  /// Makes system calls: not for the packet path.
  virtual bool needs_restart() const = 0;
  /// A restart takes three steps, and workers pause only for the first and the last, which are
  /// short. The first: queues receive nothing and drop what they are given until resume(). Does
  /// nothing the second time. REQUIRES: no worker polls.
  virtual void suspend() = 0;
  /// The second step: stops and starts the device, or closes and opens it, which releases all
  /// buffers that it holds. May take a second. REQUIRES: suspend().
  /// Fails: the queues stay suspended; call again while needs_restart().
  virtual Status restart() = 0;
  /// The last restart() failed because another thread was in map_for_ports() or unmap_for_ports():
  /// these have to stop for a while, so that a restart finds its turn.
  virtual bool waits_for_memory() const { return false; }
  /// The third step: workers use the queues again, whose wait_fd() may have changed.
  /// REQUIRES: restart() succeeded, and no worker polls.
  virtual void resume() = 0;
  /// Closes the device, so that another process can open it. restart() and resume() open it again.
  /// REQUIRES: suspend().
  virtual void close() = 0;
};

/// The three steps of a restart, for a caller whose workers do not poll. Fails: as restart().
inline Status restart_at_once(Port& port) {
  port.suspend();
  Status done = port.restart();
  if (done.ok()) port.resume();
  return done;
}

/// A process that has the NICs until it closes them, for the one that goes on in its place.
struct NicOwner {
  bool uses_physical_addresses = false;
};

/// A NIC API: memory, ports, and the registration of threads.
/// Thread: the control thread, unless stated otherwise. Owner: destroyed last.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual bool has_hugepages() const = 0;
  /// Whether NICs know memory by its physical addresses.
  virtual bool uses_physical_addresses() const = 0;
  /// Queue pairs that a port on `device` can have, before it is opened. 0: not known.
  virtual uint32_t queue_pairs_max(const std::string& device) const = 0;
  /// Fails: no memory.
  virtual Result<std::unique_ptr<PacketMemory>> make_memory(uint32_t worker,
                                                            const MemoryOptions& options) = 0;
  /// Opens and starts a port with memories.size() queue pairs; queue i receives into memories[i].
  /// `memories` come from make_memory().
  virtual Result<std::unique_ptr<Port>> open_port(const PortOptions& options,
                                                  std::span<PacketMemory* const> memories) = 0;
  /// Addresses in which only client memory will lie. A backend may tell drivers of them as a whole;
  /// memory elsewhere can be mapped as well. The caller keeps them reserved until it has unmapped
  /// all of that for the ports, and has closed all ports. Once. Thread: the control thread, before
  /// another thread maps memory.
  virtual void set_region_window(std::span<const uint8_t> /*window*/) {}
  /// Maps client memory for the ports' DMA before workers use it, because mapping may be slow:
  /// their PacketMemory::add_region() then returns at once. REQUIRES: the memory is mapped for
  /// writing, and no other thread of this process accesses it yet. Thread: any. Fails: workers copy
  /// its data per packet.
  virtual Status map_for_ports(const RegionMemory& memory) = 0;
  /// Call after every worker has removed the region, also when it could not be mapped. Thread: any.
  virtual void unmap_for_ports(const RegionMemory& memory) = 0;
  /// Every thread that uses a memory or a queue calls this first, and unregisters before it ends: a
  /// backend may keep buffer caches per thread. Thread: the calling one.
  virtual Status register_worker_thread() = 0;
  virtual void unregister_worker_thread() = 0;
};

}  // namespace lyre::io
