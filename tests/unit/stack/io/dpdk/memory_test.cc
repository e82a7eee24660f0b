#include "stack/io/dpdk/memory.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <string>
#include <vector>

#include "stack/io/dpdk/driver_quirks.h"

namespace lyre::io::dpdk {
namespace {

/// gve with DQO rounds the room of a buffer down to a multiple of 128, and its NIC takes no frame
/// that does not fit one buffer.
TEST(ReceiveRoom, HoldsAFrameOfTheMtuWhenTheDriverRoundsItDown) {
  constexpr uint32_t kEthernetBytes = 14;
  for (uint32_t mtu = 2031; mtu <= 8896; ++mtu) {
    const uint32_t room =
        receive_room_bytes({.mtu_bytes = mtu, .devices = {"0000:00:04.0"}}) - RTE_PKTMBUF_HEADROOM;
    ASSERT_GE(room / 128 * 128, mtu + kEthernetBytes) << "MTU " << mtu;
  }
}

TEST(ReceiveRoom, IsAPowerOfTwoForTheUsualMtu) {
  EXPECT_EQ(receive_room_bytes({.mtu_bytes = 1500, .devices = {"0000:00:04.0"}}),
            2048 + RTE_PKTMBUF_HEADROOM);
}

// A slot with 12 bytes more than a block ended the daemon, once a client got copies.
TEST(ReceiveRoom, LetsLaterBuffersOfASuperPacketFitABlockOfCopies) {
  constexpr uint32_t kBlockBytes = 16384;
  constexpr uint32_t kVirtioHeaderBytes = 12;  // payload in a packet's later buffers
  const auto room = [](const char* device) {
    const MemoryOptions options{.mtu_bytes = 1500, .devices = {device}, .has_super_packets = true};
    return receive_room_bytes(options) - RTE_PKTMBUF_HEADROOM;
  };
  EXPECT_EQ(room("0000:00:04.0") + kVirtioHeaderBytes, kBlockBytes);
  EXPECT_EQ(room("net_memif0,role=server"), kBlockBytes);
}

// The kernel merges what it gives a packet socket, whatever the operator asked for.
TEST(ReceiveRoom, IsForSuperPacketsWhereAPortIsAPacketSocket) {
  const MemoryOptions with_key{
      .mtu_bytes = 1500, .devices = {"net_af_packet0,iface=eth1"}, .has_super_packets = true};
  MemoryOptions without = with_key;
  without.has_super_packets = false;
  EXPECT_EQ(receive_room_bytes(without), receive_room_bytes(with_key));
  EXPECT_LT(receive_room_bytes({.devices = {"net_af_xdp0,iface=eth1"}}),
            receive_room_bytes(without));
}

// The rings held all copies of a worker, and no driver was called that frees only when it sends.
TEST(CopyPackets, AreMoreThanTheRingsOfPortsThatCannotBeAskedHold) {
  EXPECT_EQ(copy_packets({.devices = {"0000:00:04.0"}}), 1024u);
  const uint32_t ring = quirks_of("net_mlx4").tx_descriptors;
  std::vector<std::string> devices;
  while (devices.size() < 8) {
    devices.push_back("0000:00:0" + std::to_string(devices.size()) + ".0");
    EXPECT_GE(copy_packets({.devices = devices}), devices.size() * (ring + kQueuePendingMax));
  }
  EXPECT_EQ(copy_packets({.devices = devices, .tx_packets = 256}), 256u);
}

}  // namespace
}  // namespace lyre::io::dpdk
