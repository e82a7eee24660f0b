#pragma once

#include <cstdint>

namespace lyre::io::dpdk {

/// What stands before a packet with PACKET_VNET_HDR: struct virtio_net_hdr of virtio 1.2, 5.1.6, in
/// the CPU's byte order. Written out here, because linux/virtio_net.h is no C++.
struct VirtioHeader {
  static constexpr uint8_t kNeedsChecksum = 1;
  static constexpr uint8_t kDataValid = 2;
  static constexpr uint8_t kNotMerged = 0;
  static constexpr uint8_t kTcpOverIpv4 = 1;
  static constexpr uint8_t kTcpOverIpv6 = 4;
  static constexpr uint8_t kHasCwr = 0x80;  ///< beside one of these two

  uint8_t flags = 0;
  uint8_t segmentation = kNotMerged;
  uint16_t headers_bytes = 0;
  uint16_t segment_bytes = 0;  ///< payload of each packet that it is cut into
  uint16_t checksum_start = 0;
  uint16_t checksum_offset = 0;
};
static_assert(sizeof(VirtioHeader) == 10);

}  // namespace lyre::io::dpdk
