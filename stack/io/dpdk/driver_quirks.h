#pragma once

#include <cstdint>
#include <string_view>

namespace lyre::io::dpdk {

/// How packets can be waited for.
enum class WaitKind : uint8_t { kNone, kQueueInterrupt, kPacketSocket, kXdpSocket };

/// What a driver does that its capabilities do not say. Seen with DPDK 22.11.
struct DriverQuirks {
  std::string_view driver;
  bool is_virtual = false;     ///< the CPU copies; nothing is held after tx_burst
  bool can_gather = true;      ///< sends segments behind the first
  bool uses_checksums = true;  ///< its checksum and TSO offloads may be used
  bool checks_mtu = true;      ///< its limits on the MTU are meant
  WaitKind wait = WaitKind::kNone;
  uint32_t rx_room_bytes_min = 0;  ///< receive buffer, headroom apart
  uint32_t rx_extra_bytes = 0;     ///< of a receive buffer that the driver keeps for itself
  uint32_t descriptors = 1024;
  /// Looks for finished packets only when it sends and few descriptors are left, unless told that
  /// nearly the whole ring is "few".
  bool is_lazy_to_free = false;
};

/// The row of `driver` ("net_memif"); NICs without a row of their own share one.
const DriverQuirks& quirks_of(std::string_view driver);

}  // namespace lyre::io::dpdk
