#include "stack/io/dpdk/driver_quirks.h"

namespace lyre::io::dpdk {
namespace {

/// NICs round the size of receive buffers down to a supported size, often a power of two.
constexpr uint32_t kNicRoomBytes = 2048;
/// XDP reserves 256 bytes in front of each packet.
constexpr uint32_t kXdpHeadroomBytes = 256;
/// A frame in a packet socket's ring is larger than the packet, and the whole frame must fit.
constexpr uint32_t kPacketRingBytes = 64;

constexpr DriverQuirks kNic = {.driver = "", .rx_room_bytes_min = kNicRoomBytes};

constexpr DriverQuirks kKnownDrivers[] = {
    {.driver = "net_virtio", .rx_room_bytes_min = kNicRoomBytes, .is_lazy_to_free = true},
    {.driver = "net_memif", .is_virtual = true, .uses_checksums = false, .checks_mtu = false},
    {.driver = "net_af_packet",
     .is_virtual = true,
     .uses_checksums = false,
     .checks_mtu = false,
     .wait = WaitKind::kPacketSocket,
     .rx_extra_bytes = kPacketRingBytes},
    // The driver copies pkt_len bytes from the first segment even of a chain, and leaks the others.
    {.driver = "net_af_xdp",
     .is_virtual = true,
     .can_gather = false,
     .uses_checksums = false,
     .checks_mtu = false,
     .wait = WaitKind::kXdpSocket,
     .rx_extra_bytes = kXdpHeadroomBytes,
     .descriptors = 2048},
    // The driver computes its offloads in software, from the first segment only.
    {.driver = "net_tap",
     .is_virtual = true,
     .uses_checksums = false,
     .wait = WaitKind::kQueueInterrupt},
};

}  // namespace

const DriverQuirks& quirks_of(std::string_view driver) {
  for (const DriverQuirks& row : kKnownDrivers) {
    if (row.driver == driver) return row;
  }
  return kNic;
}

}  // namespace lyre::io::dpdk
