#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "stack/base/memory_model.h"
#include "stack/base/result.h"
#include "stack/io/dpdk/driver_quirks.h"
#include "stack/io/dpdk/environment.h"
#include "stack/io/dpdk/memory.h"

struct rte_mempool;

namespace lyre::io::dpdk {

/// One TSO packet is one IP packet. Its 16-bit length field includes the headers.
inline constexpr uint32_t kTsoPayloadBytesMax = 65535 - 60 - 60;

/// The result of configuring a port.
struct PortSetup {
  IoCapabilities capabilities;
  TransmitLimits limits{1, 1};
  uint32_t tx_descriptors = 0;      ///< of a transmit ring
  uint32_t super_packet_slots = 0;  ///< that a received super-packet fills at most; 0: none comes
  bool is_rx_trusted = false;       ///< received checksums count as correct
  bool has_ip_checksum = false;
  bool has_tcp_checksum = false;       ///< over IPv4
  bool has_ipv6_tcp_checksum = false;  ///< known when the device runs: limit_to_ipv6_offloads()
  bool is_faulty = false;              ///< see DriverQuirks::is_faulty_without_ip_checksum
  bool has_link_state = true;          ///< the driver can tell whether the link is up
  uint64_t rss_hashes = 0;  ///< RTE_ETH_RSS_*: of what the NIC spreads packets by; 0: it does not
};

/// Whether the link interrupt of a NIC arrives: with it ethdev gives the link as of the last one.
/// `has_queue_interrupts`: by MSI-X, of which it has a vector, too. Without them it is the line,
/// which not every virtual host makes. `kernel_folder`: DeviceArgs::kernel_folder().
bool has_link_interrupt(bool has_queue_interrupts, const std::string& kernel_folder);

/// Configures an Ethernet device that DPDK knows and sets up one queue pair for each memory, whose
/// driver takes receive buffers from `rx_pools`; empty: from the memories' own.
/// `has_interrupts`: with an interrupt for each receive queue.
/// Thread: the control thread. Fails: one line that names the port and the step.
Result<PortSetup> configure_port(uint16_t port_id, const PortOptions& options,
                                 const DriverQuirks& quirks, bool has_interrupts,
                                 std::span<Memory* const> memories,
                                 std::span<rte_mempool* const> rx_pools = {});

}  // namespace lyre::io::dpdk
