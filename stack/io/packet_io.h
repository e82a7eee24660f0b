#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "stack/base/ip_address.h"
#include "stack/base/mac_address.h"
#include "stack/base/page_size.h"
#include "stack/io/packet.h"

namespace lyre::io {

/// The minimum headroom of every transmit buffer: Ethernet + IPv6 + TCP with options fit.
inline constexpr uint16_t kTxHeadroomBytes = 128;

/// Client memory that ports can read.
struct RegionMemory {
  const uint8_t* base = nullptr;
  uint64_t bytes = 0;
  uint64_t page_bytes = system_page_bytes();  ///< of the pages behind it: hugepages never move
};

/// The packet memory of one worker: its receive pool (payload memory that clients map read-only),
/// its transmit buffers, and the client memory that its ports may read.
/// Thread: the worker that owns it, after start.
class PacketMemory {
 public:
  virtual ~PacketMemory() = default;

  /// Fills `out` with empty transmit buffers (length 0, headroom as above). Returns how many.
  virtual size_t alloc_tx(std::span<PacketBuf*> out) = 0;
  /// An empty packet of the receive pool (for local delivery), or nullptr.
  virtual PacketBuf* alloc_rx() = 0;
  /// Frees packets of either kind.
  virtual void release(std::span<PacketBuf* const> packets) = 0;
  /// Gives back what is kept of these pools for the calling thread. For a thread that took or freed
  /// packets and will not do so again: the worker's thread cannot use them.
  virtual void return_cached() = 0;

  /// The received packet that lies in `slot`. Thread: any. REQUIRES: slot < rx_slot_count().
  virtual PacketBuf* rx_packet(uint32_t slot) = 0;
  virtual uint32_t rx_slot_count() const = 0;
  /// Approximate number of free receive buffers. Buffers in the ports' rings are not free.
  virtual uint32_t rx_slots_free() const = 0;
  /// Memory that one packet occupies, whatever it carries. Receive windows are charged in this
  /// unit.
  virtual uint32_t rx_slot_bytes() const = 0;
  /// The pool's memory: a sealed memfd of rx_memory().size() bytes. Owner: this object.
  virtual int rx_memory_fd() const = 0;
  virtual std::span<const uint8_t> rx_memory() const = 0;

  /// Makes `memory` readable by the ports as `region`. It must stay mapped until remove_region()
  /// was called and region_holds() is 0. False: `region` is out of range or taken.
  virtual bool add_region(uint32_t region, const RegionMemory& memory) = 0;
  virtual void remove_region(uint32_t region) = 0;
  /// Pieces of `region` that a port has taken and not yet released.
  virtual uint32_t region_holds(uint32_t region) const = 0;
  /// The largest part of `region` that ports read as one segment; parts start at multiples of it.
  /// UINT32_MAX: any part of a packet. 0: ports cannot read it, and copy what they send of it; TSO
  /// packets must not contain it. Becomes 0 for a known region when a device that was opened again
  /// cannot read it: a TSO packet is then copied, or dropped where its copy has too many segments.
  virtual uint32_t region_segment_bytes(uint32_t region) const = 0;
};

/// Releases a received packet with those that are chained to it.
inline void release_chain(PacketMemory& memory, PacketBuf* packet) {
  while (packet != nullptr) {
    const uint32_t next = packet->next_slot;
    memory.release({&packet, 1});
    packet = next == PacketBuf::kNoSlot ? nullptr : memory.rx_packet(next);
  }
}

/// The maximum number of regions of a worker: arenas and registered memory of all its clients.
inline constexpr uint32_t kRegionsMax = 8192;

using lyre::MacAddress;

/// The offloads of a port. The backend does in software what a port lacks and TCP depends on.
struct IoCapabilities {
  MacAddress mac;
  uint32_t mtu_bytes = 1500;   ///< largest IP packet
  uint32_t tso_bytes_max = 0;  ///< largest TCP payload of one TSO packet; 0: no TSO
  bool has_ipv6_tso = true;    ///< as that over IPv4
  uint32_t tx_pieces_max = 1;  ///< pieces after the headers, at most kTxPiecesMax
  /// Segments of a TSO packet, and of each packet cut from it, headers included: the worker keeps
  /// to them. A packet of more segments than the port gathers is copied by the port.
  uint32_t tso_segments_max = UINT32_MAX;
  uint32_t cut_segments_max = UINT32_MAX;
  bool tx_checksum_in_hardware = false;
  bool rx_checksum_in_hardware = false;
  /// The kernel has the interface, too. Only packets to PortOptions::addresses come, so the port
  /// has no address besides.
  bool is_beside_kernel = false;
  /// tso_bytes_max of the packets of a connection.
  uint32_t tso_bytes_max_of(const IpAddress& address) const {
    return has_ipv6_tso || address.is_v4() ? tso_bytes_max : 0;
  }
  bool operator==(const IoCapabilities&) const = default;
};

/// Counters that only the backend can count. Units: packets, or bytes where the name says so. A TSO
/// packet that the port's NIC cuts counts as the packets on the wire. A super-packet, sent or
/// received, is one.
struct IoCounters {
  uint64_t rx_packets = 0;
  uint64_t rx_bytes = 0;
  uint64_t tx_packets = 0;
  uint64_t tx_bytes = 0;
  uint64_t rx_missed = 0;  ///< received, and lost for want of a buffer
  uint64_t tx_full = 0;    ///< tx_burst took fewer packets than offered
  /// Bytes copied because the port cannot gather. ENA: also payload bytes copied to the first
  /// segment.
  uint64_t tx_linearised_bytes = 0;
  uint64_t rx_linearised_bytes = 0;  ///< copied because a frame arrived in several segments
  uint64_t software_checksums = 0;
  uint64_t tx_dropped = 0;  ///< taken and never sent: link down, or the region was removed
};

/// A port that runs frees a packet, without being asked, when it has sent so many more at the
/// latest.
inline constexpr uint32_t kFreedWithinPackets = 128;

/// What PacketIo::arm() found.
enum class Arming : uint8_t {
  kUnsure,   ///< wait_fd() may miss a packet, or there is none: poll again after a short sleep
  kArmed,    ///< a packet that arrives from now on makes wait_fd() readable
  kPackets,  ///< packets have arrived already: do not sleep
};

/// What ended a sleep with armed queues.
enum class Woken : uint8_t {
  kByPackets,  ///< this queue's wait_fd()
  kByTimeout,  ///< nothing: whatever has arrived was not announced
  kByOthers,   ///< a doorbell, or another queue
};

/// One receive and one transmit queue of one port.
/// Thread: the worker that owns it.
/// Fails: no call blocks; a full or empty queue returns a short count.
class PacketIo {
 public:
  virtual ~PacketIo() = default;

  /// Fills `out` with received packets. Owner: the caller, until it releases them.
  virtual size_t rx_burst(std::span<PacketBuf*> out) = 0;
  /// Sends the first n packets of `in` and returns n. Owner: the backend takes those; the others
  /// stay with the caller. Pieces may be read until region_holds() has fallen accordingly.
  virtual size_t tx_burst(std::span<PacketBuf* const> in) = 0;
  /// Packets that tx_burst() took are not in the device's ring, which was full, or the kernel under
  /// the port refused them. The next tx_burst(), also an empty one, offers them again.
  virtual bool has_unsent() const { return false; }
  /// Frees the packets that the port has finished sending, as far as the driver can be asked to.
  virtual void reclaim() = 0;
  /// The worker waits until the port frees packets that it holds. A port that goes on to free none
  /// is stuck; one for which no worker waits may keep what it has.
  virtual void note_wait() {}
  /// The packets that tx_burst() took last, from the first one on that the port has not freed, as
  /// far as it knows by now. The port has freed all parts of all packets before them.
  virtual size_t tx_held() const = 0;

  virtual const IoCapabilities& capabilities() const = 0;
  virtual IoCounters counters() const = 0;
  virtual bool is_link_up() const = 0;
  /// The number of the port's queue that receives the packets of this connection; nothing where
  /// the driver does not tell how it spreads them. Where it is wrong, packets are redirected.
  virtual std::optional<uint32_t> receive_queue_of([[maybe_unused]] const FourTuple& tuple) const {
    return std::nullopt;
  }
  /// A descriptor that becomes readable when packets arrive, if the queue is armed. It is the same
  /// until Port::resume(), and only this object reads from it. -1: there is none.
  virtual int wait_fd() const = 0;
  /// Arms the queue before a sleep, after rx_burst() returned nothing, and looks for packets once
  /// more. A queue stays armed until disarm(). Calling it again is allowed and finds out more: a
  /// packet that was sent while the queue was being armed may be seen only then.
  virtual Arming arm() { return Arming::kUnsure; }
  /// After a sleep that wait_fd() ended, or when a turn had work. Until then packets are announced,
  /// which costs the sender a system call for each burst.
  virtual void disarm([[maybe_unused]] Woken woken) {}
};

}  // namespace lyre::io
