#include "stack/worker/packet_input.h"

#include <gtest/gtest.h>

#include <span>

#include "stack/wire/arp.h"
#include "stack/wire/ethernet.h"
#include "tests/unit/stack/worker/connected_parts.h"

namespace lyre::worker {
namespace {

class PacketInputTest : public ConnectedParts {
 protected:
  /// With an IEEE 802.1Q tag.
  static Frame tagged(Frame frame, uint16_t tci) {
    uint8_t tag[wire::kVlanTagBytes];
    wire::write_be16(tag, wire::kEtherTypeVlan);
    wire::write_be16(tag + 2, tci);
    frame.insert(frame.begin() + 12, tag, tag + sizeof tag);
    return frame;
  }
  uint64_t all_drops() const {
    uint64_t sum = 0;
    for (size_t i = 0; i < kDropCount; ++i) sum += drops(static_cast<Drop>(i));
    return sum;
  }

  const uint32_t free_before = memory.rx_slots_free();
};

TEST_F(PacketInputTest, WhatCannotBeUsedIsCountedOnceAndItsPacketReleased) {
  receive({1, 2, 3});
  EXPECT_EQ(drops(Drop::kEthTooShort), 1u);
  EXPECT_EQ(all_drops(), 1u);
  EXPECT_EQ(memory.rx_slots_free(), free_before);
}

TEST_F(PacketInputTest, ASegmentOfAConnectionKeepsItsPacket) {
  receive_text(0, 600);
  EXPECT_EQ(memory.rx_slots_free(), free_before - 1);
  EXPECT_EQ(all_drops(), 0u);
}

TEST_F(PacketInputTest, ATagThatOnlyGivesAPriorityIsIgnored) {
  const uint64_t before = stats.tcp_segments_in.get();
  for (const uint32_t offset : {0u, 600u}) {
    const Frame frame = ip::tcp_frame(segment(conn, offset, 600));
    input.on_packet(packet_of(tagged(frame, 0xe000)), ip::Origin::kWire, Redirect::kNo);
  }
  segment_input.deliver_merged();
  EXPECT_EQ(stats.tcp_segments_in.get(), before + 2);
  EXPECT_EQ(memory.rx_slots_free(), free_before - 2);
  EXPECT_EQ(all_drops(), 0u);
}

TEST_F(PacketInputTest, AFrameOfAVlanIsNotOurs) {
  receive(tagged(ip::tcp_frame(segment(conn, 0, 600)), 5));
  EXPECT_EQ(drops(Drop::kEthUnknownType), 1u);
  EXPECT_EQ(all_drops(), 1u);
  EXPECT_EQ(memory.rx_slots_free(), free_before);
}

TEST_F(PacketInputTest, ASegmentOfNoConnectionIsAnsweredAndItsPacketReleased) {
  ip::TcpOutput foreign = segment(conn, 0, 600);
  foreign.tuple.local.port = 4444;
  receive(ip::tcp_frame(foreign));
  EXPECT_EQ(drops(Drop::kTcpNoConnection), 1u);
  EXPECT_EQ(stats.tcp_resets_out.get(), 1u);
  EXPECT_EQ(take_frames().size(), 1u);
  EXPECT_EQ(memory.rx_slots_free(), free_before);
}

TEST_F(PacketInputTest, AnArpRequestIsAnsweredAndItsSenderLearned) {
  const IpAddress asker = IpAddress::v4(0x0a090003);
  Frame frame(wire::kEthernetHeaderBytes + wire::kArpBytes);
  wire::write_ethernet({state.ports[0].mac(), kPeerMac, wire::kEtherTypeArp},
                       std::span(frame).first<wire::kEthernetHeaderBytes>());
  wire::write_arp({.sender_mac = kPeerMac, .sender_ip = asker, .target_ip = kOwn},
                  std::span(frame).subspan<wire::kEthernetHeaderBytes, wire::kArpBytes>());
  receive(frame);
  EXPECT_EQ(take_frames().size(), 1u);
  EXPECT_EQ(state.neighbours.resolve(0, asker, state.now).answer, link::Answer::kKnown);
  EXPECT_EQ(memory.rx_slots_free(), free_before);
}

}  // namespace
}  // namespace lyre::worker
