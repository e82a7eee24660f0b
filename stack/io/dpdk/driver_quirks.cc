#include "stack/io/dpdk/driver_quirks.h"

namespace lyre::io::dpdk {
namespace {

/// NICs round receive buffers down to what they can address, often to a power of two.
constexpr uint32_t kNicRoomBytes = 2048;
/// XDP keeps 256 bytes in front of each packet.
constexpr uint32_t kXdpHeadroomBytes = 256;
/// A frame of a packet socket's ring is larger than the packet, and must fit as a whole.
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
    // Copies pkt_len bytes from the first segment whatever the chain says, and leaks the rest.
    {.driver = "net_af_xdp",
     .is_virtual = true,
     .can_gather = false,
     .uses_checksums = false,
     .checks_mtu = false,
     .wait = WaitKind::kXdpSocket,
     .rx_extra_bytes = kXdpHeadroomBytes,
     .descriptors = 2048},
    // Its offloads are software of its own, and look into the first segment only.
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
