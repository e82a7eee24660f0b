#pragma once

#include <cstdint>
#include <string_view>

#include "stack/io/dpdk/nic_check.h"
#include "stack/io/dpdk/rising_counter.h"

namespace lyre::io::dpdk {

/// How a thread can sleep until packets arrive.
enum class WaitKind : uint8_t { kNone, kQueueInterrupt, kXdpSocket };

/// When a driver frees packets that were sent.
enum class Frees : uint8_t {
  kOnRequest,    ///< in rte_eth_tx_done_cleanup(), or in an empty rte_eth_tx_burst()
  kOnStatus,     ///< in rte_eth_tx_descriptor_status()
  kWhenSending,  ///< only while it sends a packet, after kFreedWithinPackets at the latest
};

/// Whether a port can receive TCP packets that are larger than its MTU.
enum class SuperPackets : uint8_t {
  kNone,
  kUncut,  ///< as another such port sent them: in one buffer of the ring, or in one for each
           ///< segment (memif_segments.h)
  kLro,    ///< as the host merged them or did not cut them, each in several receive buffers
};

/// Properties of a driver that its capabilities do not report. Virtual devices and virtio: seen
/// with DPDK 22.11. The others: read in the sources of the drivers, 22.11 to 26.07.
struct DriverQuirks {
  std::string_view driver;
  bool is_virtual = false;     ///< the CPU copies; nothing is held after tx_burst
  bool can_gather = true;      ///< sends segments after the first
  bool uses_checksums = true;  ///< its checksum and TSO offloads may be used
  bool checks_mtu = true;      ///< it enforces the MTU limits that it reports
  WaitKind wait = WaitKind::kNone;
  SuperPackets super_packets = SuperPackets::kNone;
  uint32_t rx_room_bytes_min = 0;  ///< receive buffer without headroom
  uint32_t rx_extra_bytes = 0;     ///< part of a receive buffer that the driver reserves
  uint32_t descriptors = 1024;     ///< of a ring
  /// Of a transmit ring. 0: as of the others.
  uint32_t tx_descriptors = 0;
  /// Descriptors in use from which the driver frees sent packets, set by its threshold of free
  /// ones: see tx_free_threshold(). 0: the driver's own.
  uint32_t frees_from_descriptors = 0;
  /// Empty places of a receive ring from which the driver fills it (rte_eth_rxconf::
  /// rx_free_thresh). 0: the driver's own.
  uint32_t refills_from_places = 0;
  bool needs_power_of_two_queues = false;
  /// The driver registers packet memory with its device by itself, and no other memory: what
  /// clients send is copied.
  bool reads_pools_only = false;
  Frees frees = Frees::kOnRequest;
  /// Segments of a packet that it takes, headers included, where it takes fewer than it reports, or
  /// reports nothing: of a packet, and of each packet that it cuts from a TSO packet. 0: as
  /// reported.
  uint32_t segments_max = 0;
  uint32_t tso_segments_max = 0;  ///< of a TSO packet. 0: as reported
  uint32_t segments_spare = 0;    ///< so many fewer than it reports
  uint32_t segment_bytes_max = UINT16_MAX;
  bool frees_while_polled = false;   ///< see DriverCalls and ConnectedCalls
  bool has_timers = false;           ///< rte_timer: its health checks
  bool is_up_while_started = false;  ///< its link never goes down, and asking for it takes long
  /// Its driver takes tens of milliseconds to tell the state of the link, or longer where the host
  /// is silent: see NicLink.
  bool is_slow_to_tell_link = false;
  /// A device that does not compute IPv4 checksums has a queue format of which the driver sends
  /// TSO packets wrongly, and frees packets twice when it stops.
  bool is_faulty_without_ip_checksum = false;
  uint32_t flow_mbps = 0;  ///< most that its network gives one flow; 0: unknown
  /// It learns the state of the link only when rte_eth_conf::intr_conf.lsc is set.
  bool needs_link_interrupt = false;
  /// Only the removal of a device whose port is open frees all of the device: a port that
  /// rte_eth_dev_close() has closed cannot be opened again.
  bool closes_by_removal = false;
  /// Its queues count the faults after which they need a reset, and it does not report them as
  /// RTE_ETH_EVENT_INTR_RESET: see ExtendedStats::has_new_faults().
  bool counts_faults = false;
  bool frees_in_any_order = false;  ///< packets of a queue
  /// It copies so many bytes of a packet to the device at most, and gives the device an empty
  /// segment where one after the first ends with them. Segments that end there are copied to the
  /// first. 0: it does not.
  uint32_t push_bytes_max = 0;
  /// It drops a packet for which its ring has some free descriptors, but too few, and counts it as
  /// sent: it is offered only packets that fit, by TxOffer. REQUIRES: it frees in order.
  bool drops_when_full = false;
  /// A port that its host has reset gives back the packets of its rings only in the setup of its
  /// queues after rte_eth_dev_reset() has succeeded, and never once it is closed (DPDK 22.11): a
  /// reset that fails is repeated. When RetryClock::is_slowest(), the port is closed and opened
  /// again instead.
  bool frees_by_reset_only = false;
  /// It does not free the packets in its receive ring when it stops: see WatchedPool.
  bool loses_rx_ring = false;
  /// Packets leave by a PCI function with the same MAC address while it is there. The driver
  /// configures the function with the number of queues that it gets itself, and its counters
  /// include those of the function: they fall when it goes.
  bool is_over_function = false;
  bool has_rx_interrupts = true;  ///< false: a NIC that is known to have none
  /// False: a NIC of which the driver asks for neither some nor all multicast frames passes them.
  bool has_multicast_filter = true;
  /// The first version of DPDK in which the driver can tell the host an MTU above 1500. None: the
  /// host is not told, or every version can.
  DpdkVersion tells_mtu_from = {};
  /// The driver frees sent packets only when it sends and few descriptors are left. It is set up
  /// with a threshold near the ring's size, so that it does so early.
  bool is_lazy_to_free = false;
  /// The handler of its link interrupt announces this machine after a migration: it sends on queue
  /// 0 (virtio_notify_peers(), 22.11 to 26.07). The driver is given that interrupt where it arrives
  /// (has_link_interrupt()), and what queues send is counted: see DriverCalls. Receive rings are
  /// not used there.
  bool announces_itself = false;
};

/// Segments of a transmitted packet, headers included.
struct TransmitLimits {
  uint32_t segments_max = 0;      ///< of a packet, and of each that is cut from a TSO packet
  uint32_t tso_segments_max = 0;  ///< of a TSO packet
};
/// What may be given to a driver that reports `reported` (rte_eth_desc_lim: nb_mtu_seg_max and
/// nb_seg_max; 0: it reports nothing).
TransmitLimits transmit_limits(const DriverQuirks& quirks, const TransmitLimits& reported);

/// What a fall of its loss counters means.
Fall fall_of_counters(const DriverQuirks& quirks);

/// Whether a port is started with an interrupt for each receive queue first. Of a NIC it is known
/// only then whether its driver has them.
bool tries_interrupts(const DriverQuirks& quirks);

/// rte_eth_txconf::tx_free_thresh for a transmit ring of `descriptors`. 0: the driver's own.
uint16_t tx_free_threshold(const DriverQuirks& quirks, uint32_t descriptors);

/// Largest MTU of a driver that reports `reported_mtu` (rte_eth_dev_info: max_mtu, UINT16_MAX where
/// it says nothing) and `frame_bytes` (max_rx_pktlen).
uint32_t mtu_limit(uint32_t reported_mtu, uint32_t frame_bytes);

/// The row of `driver` ("net_memif"). Drivers without a row share a default, whose `driver` is
/// empty: one segment a packet, no TSO, and a short transmit ring.
const DriverQuirks& quirks_of(std::string_view driver);

}  // namespace lyre::io::dpdk
