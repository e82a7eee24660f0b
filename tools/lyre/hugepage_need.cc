#include "tools/lyre/hugepage_need.h"

#include <algorithm>

namespace lyre::tools {
namespace {

constexpr uint64_t kLeastMib = 384;
/// DPDK's own memory: that of the daemon, and that of a worker's queues.
constexpr uint64_t kHeapMib = 96;
constexpr uint64_t kHeapOfWorkerMib = 32;
/// A worker's pools beside those of packets of the MTU, and rounding to pages.
constexpr uint64_t kSmallPoolsMib = 12;
/// Packets of the MTU that a worker copies into, beside those that it receives into.
constexpr uint64_t kCopyPackets = 1024;
/// Buffers of NICs are not smaller. What else a slot has: mbuf, headroom, PacketBuf.
constexpr uint64_t kNicRoomBytes = 2048;
/// Nor are those of workers with a port that receives super-packets: kSuperPacketRoomBytes of
/// stack/io/dpdk/memory.cc.
constexpr uint64_t kLargeRoomBytes = 16384;
constexpr uint64_t kSlotOverheadBytes = 600;

}  // namespace

uint64_t hugepages_mib(uint32_t workers, const ConfiguredPackets& packets) {
  constexpr uint64_t kMib = 1 << 20;
  const uint64_t least = packets.has_super_packets ? kLargeRoomBytes : kNicRoomBytes;
  const uint64_t slot = std::max<uint64_t>(packets.mtu_bytes, least) + kSlotOverheadBytes;
  const uint64_t packets_mib = (packets.rx_slots + kCopyPackets) * slot / kMib + 1;
  const uint64_t sum = kHeapMib + workers * (kHeapOfWorkerMib + kSmallPoolsMib + packets_mib);
  return std::max((sum + 1) / 2 * 2, kLeastMib);
}

}  // namespace lyre::tools
