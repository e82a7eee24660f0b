#pragma once

#include <cstdint>
#include <string_view>

namespace lyre::io::dpdk {

/// How a thread can sleep until packets arrive.
enum class WaitKind : uint8_t { kNone, kQueueInterrupt, kPacketSocket, kXdpSocket };

/// Properties of a driver that its capabilities do not report. Seen with DPDK 22.11.
struct DriverQuirks {
  std::string_view driver;
  bool is_virtual = false;     ///< the CPU copies; nothing is held after tx_burst
  bool can_gather = true;      ///< sends segments after the first
  bool uses_checksums = true;  ///< its checksum and TSO offloads may be used
  bool checks_mtu = true;      ///< it enforces the MTU limits that it reports
  WaitKind wait = WaitKind::kNone;
  uint32_t rx_room_bytes_min = 0;  ///< receive buffer without headroom
  uint32_t rx_extra_bytes = 0;     ///< part of a receive buffer that the driver reserves
  uint32_t descriptors = 1024;
  /// The driver frees sent packets only when it sends and few descriptors are left. It is set up
  /// with a threshold near the ring's size, so that it does so early.
  bool is_lazy_to_free = false;
};

/// The row of `driver` ("net_memif"); NICs without a row of their own share a default.
const DriverQuirks& quirks_of(std::string_view driver);

}  // namespace lyre::io::dpdk
