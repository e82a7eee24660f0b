#include "stack/link/framing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "stack/base/ipv6_address.h"
#include "tests/unit/stack/link/addresses.h"

namespace lyre::link {
namespace {

/// A received frame of `bytes` bytes, counted up, with these at the place of the type.
struct ReceivedFrame {
  ReceivedFrame(size_t bytes, std::vector<uint8_t> type_and_more) : memory(bytes) {
    std::iota(memory.begin(), memory.end(), uint8_t{0});
    std::copy(type_and_more.begin(), type_and_more.end(), memory.begin() + 12);
    packet.data = memory.data();
    packet.length = static_cast<uint32_t>(bytes);
    packet.headroom = 128;
  }
  std::vector<uint8_t> bytes() const { return {packet.bytes().begin(), packet.bytes().end()}; }

  std::vector<uint8_t> memory;
  io::PacketBuf packet;
};

TEST(RemovePriorityTag, LeavesTheFrameAsItWouldBeUntagged) {
  ReceivedFrame frame(64, {0x81, 0x00, 0xe0, 0x00, 0x08, 0x00});
  std::vector<uint8_t> untagged = frame.memory;
  untagged.erase(untagged.begin() + 12, untagged.begin() + 16);
  ASSERT_TRUE(remove_priority_tag(frame.packet));
  EXPECT_EQ(frame.bytes(), untagged);
  EXPECT_EQ(frame.packet.headroom, 132);
  EXPECT_FALSE(remove_priority_tag(frame.packet));
}

TEST(RemovePriorityTag, LeavesOtherFramesAlone) {
  const std::vector<uint8_t> others[] = {{0x08, 0x00, 0x00, 0x00},   // no tag
                                         {0x81, 0x00, 0x00, 0x05},   // of a VLAN
                                         {0x81, 0x00, 0xef, 0xff},   // of another
                                         {0x88, 0xa8, 0x00, 0x00}};  // a tag of a provider's bridge
  for (const std::vector<uint8_t>& type : others) {
    ReceivedFrame frame(64, type);
    EXPECT_FALSE(remove_priority_tag(frame.packet));
    EXPECT_EQ(frame.bytes(), frame.memory);
  }
}

TEST(RemovePriorityTag, AFrameMayEndInItsTag) {
  for (const size_t bytes : {16u, 17u}) {
    ReceivedFrame frame(bytes, {0x81, 0x00, 0x00, 0x00});
    EXPECT_FALSE(remove_priority_tag(frame.packet));
    EXPECT_EQ(frame.packet.length, bytes);
  }
  ReceivedFrame shortest(18, {0x81, 0x00, 0x00, 0x00, 0x08, 0x00});
  EXPECT_TRUE(remove_priority_tag(shortest.packet));
  EXPECT_EQ(shortest.packet.length, wire::kEthernetHeaderBytes);
}

TEST(MldFraming, WritesAFrame) {
  uint8_t memory[128];
  io::PacketBuf packet;
  packet.data = memory + 128;
  packet.headroom = 128;
  NeighbourOut out;
  out.kind = NeighbourOut::Kind::kMld;
  out.mld = {{kOwnLinkLocal, wire::kMldRouters}, {solicited_node_group(kOwn), false, true}};
  write_neighbour_frame(packet, kOwnMac, out);
  ASSERT_EQ(packet.length, 14u + 40 + 36);
  Drop drop{};
  const auto ip = wire::parse_ipv6(packet.bytes().subspan(14), drop);
  ASSERT_TRUE(ip);
  EXPECT_EQ(ip->hop_limit, 1);
  std::optional<wire::ParameterProblem> problem;
  const auto upper = wire::skip_extensions(packet.bytes().subspan(14), drop, problem);
  ASSERT_TRUE(upper);
  EXPECT_EQ(upper->protocol, wire::kIpProtocolIcmpv6);
  EXPECT_EQ(upper->offset_bytes, 48u);
}

TEST(NdpFraming, WritesAFrame) {
  uint8_t memory[128];
  io::PacketBuf packet;
  packet.data = memory + 128;
  packet.headroom = 128;
  NeighbourOut out;
  out.kind = NeighbourOut::Kind::kNdp;
  out.destination = multicast_mac(solicited_node_group(kPeer));
  out.ndp.addresses = {kOwn, solicited_node_group(kPeer)};
  out.ndp.message.type = wire::NdpType::kNeighbourSolicitation;
  out.ndp.message.target = kPeer;
  out.ndp.message.source_mac = kOwnMac;
  write_neighbour_frame(packet, kOwnMac, out);
  ASSERT_EQ(packet.length, 14u + 40 + 32);
  Drop drop{};
  const auto ethernet = wire::parse_ethernet(packet.bytes(), drop);
  ASSERT_TRUE(ethernet);
  EXPECT_EQ(ethernet->type, wire::kEtherTypeIpv6);
  EXPECT_EQ(ethernet->destination, out.destination);
  const auto ip = wire::parse_ipv6(packet.bytes().subspan(14), drop);
  ASSERT_TRUE(ip);
  EXPECT_EQ(ip->hop_limit, wire::kNdpHopLimit);
  const auto message = packet.bytes().subspan(54);
  EXPECT_TRUE(wire::parse_icmpv6(out.ndp.addresses, message, drop)) << "checksum";
  const auto back = wire::parse_ndp(out.ndp.addresses, ip->hop_limit, message, drop);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->target, kPeer);
  EXPECT_EQ(back->source_mac, kOwnMac);
}

}  // namespace
}  // namespace lyre::link
