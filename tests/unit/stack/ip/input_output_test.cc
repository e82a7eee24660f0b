#include <gtest/gtest.h>

#include <algorithm>

#include "stack/ip/input.h"
#include "stack/ip/output.h"
#include "tests/unit/stack/ip/frame_builder.h"

namespace lyre::ip {
namespace {

/// The peer's segment to us.
TcpOutput segment_from_peer(uint32_t payload_bytes) {
  TcpOutput out;
  out.frame = {kPeerMac, kOwnMac};
  out.tuple = {{kPeerIp, 4000}, {kOwnIp, 80}};
  out.header.seq = SeqNum(1000);
  out.header.ack = SeqNum(2000);
  out.header.flags.set(wire::TcpFlags::kAck);
  out.header.window = 512;
  out.header.options.has_timestamps = true;
  out.payload_bytes = payload_bytes;
  out.ip_id = 9;
  out.ecn = wire::Ecn::kCe;
  return out;
}

class InputTest : public testing::Test {
 protected:
  InputTest() { routes_.add_address(0, kOwnIp, 96 + 24); }

  InputKind classify_frame(std::vector<uint8_t>& frame) {
    return classify(received(frame), kOwnMac, routes_, Origin::kWire, out_);
  }
  /// The reason for which `frame` is dropped.
  Drop drop_of(std::vector<uint8_t> frame) {
    EXPECT_EQ(classify_frame(frame), InputKind::kDrop);
    return out_.drop;
  }

  RouteTable routes_;
  Classified out_;
};

TEST_F(InputTest, ASegmentArrivesAsItWasSent) {
  auto frame = tcp_frame(segment_from_peer(100));
  ASSERT_EQ(classify_frame(frame), InputKind::kTcp);
  EXPECT_EQ(out_.tcp.tuple, (FourTuple{{kOwnIp, 80}, {kPeerIp, 4000}}));
  EXPECT_EQ(out_.tcp.parsed.header.seq, SeqNum(1000));
  EXPECT_EQ(out_.tcp.parsed.header.window, 512);
  EXPECT_TRUE(out_.tcp.parsed.header.options.has_timestamps);
  EXPECT_EQ(out_.tcp.ecn, wire::Ecn::kCe);
  ASSERT_EQ(out_.tcp.payload.size(), 100u);
  EXPECT_EQ(out_.tcp.payload[99], 99);
}

TEST_F(InputTest, ChecksumsAreLeftToThePortWhenSending) {
  TestPacket packet;
  write_tcp_packet(packet.buf, segment_from_peer(0));
  EXPECT_TRUE(packet.buf.wants_checksums);
  EXPECT_EQ(packet.buf.l3_bytes, 20);
  EXPECT_EQ(packet.buf.l4_bytes, 32);
  EXPECT_EQ(wire::read_raw16(packet.buf.data + 14 + 10), 0);
  EXPECT_EQ(wire::read_raw16(packet.buf.data + 14 + 20 + 16),
            wire::tcp_pseudo_sum(kPeerIp, kOwnIp, 32));
  EXPECT_EQ(packet.buf.headroom, 128 - 14 - 20 - 32);
}

TEST_F(InputTest, EthernetPaddingIsCutOff) {
  auto frame = tcp_frame(segment_from_peer(3));
  frame.resize(frame.size() + 20, 0xee);
  ASSERT_EQ(classify_frame(frame), InputKind::kTcp);
  EXPECT_EQ(out_.tcp.payload.size(), 3u);
}

TEST_F(InputTest, EachFlippedBitOfASegmentIsNoticed) {
  const auto good = tcp_frame(segment_from_peer(40));
  for (size_t at = wire::kEthernetHeaderBytes; at < good.size(); ++at) {
    auto bad = good;
    bad[at] ^= 0x04;
    EXPECT_EQ(classify_frame(bad), InputKind::kDrop) << "byte " << at;
  }
}

TEST_F(InputTest, EveryTruncationIsDropped) {
  const auto good = tcp_frame(segment_from_peer(40));
  for (size_t count = 0; count < good.size(); ++count) {
    std::vector<uint8_t> bad(good.begin(), good.begin() + static_cast<ptrdiff_t>(count));
    EXPECT_EQ(classify_frame(bad), InputKind::kDrop) << count << " bytes";
  }
}

TEST_F(InputTest, ThePortsVerdictIsBelieved) {
  auto frame = tcp_frame(segment_from_peer(10));
  frame.back() ^= 1;
  io::PacketBuf packet = received(frame);
  EXPECT_EQ(classify(packet, kOwnMac, routes_, Origin::kWire, out_), InputKind::kDrop);
  EXPECT_EQ(out_.drop, Drop::kTcpBadChecksum);
  packet.l4_checksum = io::ChecksumVerdict::kGood;
  EXPECT_EQ(classify(packet, kOwnMac, routes_, Origin::kWire, out_), InputKind::kTcp);
  packet.ip_checksum = io::ChecksumVerdict::kBad;
  EXPECT_EQ(classify(packet, kOwnMac, routes_, Origin::kWire, out_), InputKind::kDrop);
  EXPECT_EQ(out_.drop, Drop::kIpBadChecksum);
  packet.ip_checksum = io::ChecksumVerdict::kGood;
  packet.l4_checksum = io::ChecksumVerdict::kBad;
  EXPECT_EQ(classify(packet, kOwnMac, routes_, Origin::kWire, out_), InputKind::kDrop);
  EXPECT_EQ(out_.drop, Drop::kTcpBadChecksum);
}

/// `frame` as the first slot of a super-packet, with `rest_bytes` in another one.
io::PacketBuf super_packet(std::vector<uint8_t>& frame, uint32_t rest_bytes) {
  wire::write_be16(frame.data() + 14 + 2, static_cast<uint16_t>(frame.size() - 14 + rest_bytes));
  io::PacketBuf packet = received(frame);
  packet.rest_bytes = rest_bytes;
  packet.rest_slots = 1;
  packet.ip_checksum = packet.l4_checksum = io::ChecksumVerdict::kGood;
  return packet;
}

TEST_F(InputTest, ASuperPacketIsASegmentOfWhichTheFirstSlotIsRead) {
  auto frame = tcp_frame(segment_from_peer(100));
  const io::PacketBuf packet = super_packet(frame, 60'000);
  ASSERT_EQ(classify(packet, kOwnMac, routes_, Origin::kWire, out_), InputKind::kTcp);
  EXPECT_EQ(out_.tcp.payload.size(), 100u);
  EXPECT_EQ(out_.tcp.parsed.header.seq, SeqNum(1000));
}

TEST_F(InputTest, ASuperPacketIsAsLongAsItsHeaderSays) {
  for (const int difference : {-1, 1}) {
    auto frame = tcp_frame(segment_from_peer(100));
    io::PacketBuf packet = super_packet(frame, 60'000);
    packet.rest_bytes += static_cast<uint32_t>(difference);
    EXPECT_EQ(classify(packet, kOwnMac, routes_, Origin::kWire, out_), InputKind::kDrop);
    EXPECT_EQ(out_.drop, Drop::kIpTooShort);
  }
}

TEST_F(InputTest, ASuperPacketNeedsThePortsVerdict) {
  auto frame = tcp_frame(segment_from_peer(100));
  for (const auto verdict : {io::ChecksumVerdict::kUnknown, io::ChecksumVerdict::kBad}) {
    io::PacketBuf packet = super_packet(frame, 60'000);
    packet.l4_checksum = verdict;
    EXPECT_EQ(classify(packet, kOwnMac, routes_, Origin::kWire, out_), InputKind::kDrop);
    EXPECT_EQ(out_.drop, Drop::kTcpBadChecksum);
  }
}

TEST_F(InputTest, ASuperPacketIsTcp) {
  auto frame =
      ip_frame(wire::kIpProtocolIcmp, icmp_message(wire::kIcmpEchoRequest, 0, 0x00010001, {}));
  const io::PacketBuf packet = super_packet(frame, 2'000);
  EXPECT_EQ(classify(packet, kOwnMac, routes_, Origin::kWire, out_), InputKind::kDrop);
  EXPECT_EQ(out_.drop, Drop::kIpUnknownProtocol);
}

TEST_F(InputTest, FramesForOthersAreDropped) {
  // RFC 1122 3.3.6.
  auto frame = tcp_frame(segment_from_peer(0));
  frame[5] = 9;
  EXPECT_EQ(drop_of(frame), Drop::kEthNotForUs);
  std::fill(frame.begin(), frame.begin() + 6, 0xff);
  EXPECT_EQ(drop_of(frame), Drop::kEthNotForUs) << "unicast IP in a broadcast frame";
}

TEST_F(InputTest, OtherEtherTypesAreDropped) {
  auto frame = tcp_frame(segment_from_peer(0));
  frame[12] = 0x88;
  frame[13] = 0xcc;
  EXPECT_EQ(drop_of(frame), Drop::kEthUnknownType);
}

TEST_F(InputTest, PacketsToOthersAndFromNowhereAreDropped) {
  // RFC 1122 3.2.1.3.
  const std::vector<uint8_t> payload(20);
  const auto to = [&](uint32_t v4) { return ip_frame(6, payload, kPeerIp, IpAddress::v4(v4)); };
  const auto from = [&](uint32_t v4) { return ip_frame(6, payload, IpAddress::v4(v4), kOwnIp); };
  EXPECT_EQ(drop_of(to(0x0a000003)), Drop::kIpNotForUs);
  EXPECT_EQ(drop_of(to(0x0a0000ff)), Drop::kIpNotForUs);
  EXPECT_EQ(drop_of(to(0xe0000001)), Drop::kIpNotForUs);
  EXPECT_EQ(drop_of(from(0x0a0000ff)), Drop::kIpBadSource);
  EXPECT_EQ(drop_of(from(0x0a000001)), Drop::kIpBadSource) << "our own address from outside";
  EXPECT_EQ(drop_of(from(0x7f000001)), Drop::kIpBadSource);
}

TEST_F(InputTest, FragmentsAndOtherProtocolsAreDropped) {
  const std::vector<uint8_t> payload(20);
  EXPECT_EQ(drop_of(ip_frame(17, payload)), Drop::kIpUnknownProtocol);
  auto frame = ip_frame(6, payload);
  frame[14 + 6] = 0x20;
  io::PacketBuf packet = received(frame);
  packet.ip_checksum = io::ChecksumVerdict::kGood;
  EXPECT_EQ(classify(packet, kOwnMac, routes_, Origin::kWire, out_), InputKind::kDrop);
  EXPECT_EQ(out_.drop, Drop::kIpFragment);
  EXPECT_EQ(drop_of(ip_frame(6, std::vector<uint8_t>(19))), Drop::kTcpTooShort);
}

TEST_F(InputTest, LocalPacketsMayComeFromUs) {
  TcpOutput output = segment_from_peer(5);
  output.tuple.local.address = kOwnIp;
  auto frame = tcp_frame(output);
  EXPECT_EQ(drop_of(frame), Drop::kIpBadSource);
  EXPECT_EQ(classify(received(frame), kOwnMac, routes_, Origin::kLocal, out_), InputKind::kTcp);
}

TEST_F(InputTest, ArpIsReadFromUnicastAndBroadcast) {
  TestPacket packet;
  const wire::ArpPacket arp{wire::ArpOperation::kRequest, kPeerMac, kPeerIp, {}, kOwnIp};
  link::write_arp_frame(packet.buf, {kPeerMac, kMacBroadcast}, arp);
  EXPECT_EQ(classify(packet.buf, kOwnMac, routes_, Origin::kWire, out_), InputKind::kArp);
  EXPECT_EQ(out_.arp.sender_ip, kPeerIp);
  packet.buf.data[0] = 2;
  EXPECT_EQ(classify(packet.buf, kOwnMac, routes_, Origin::kWire, out_), InputKind::kDrop);
  EXPECT_EQ(out_.drop, Drop::kEthNotForUs);
}

TEST_F(InputTest, AnIcmpErrorAboutUsIsToldAboutOthersIsNot) {
  const FourTuple ours{{kOwnIp, 5}, {kPeerIp, 6}};
  auto frame =
      ip_frame(wire::kIpProtocolIcmp, icmp_message(3, 4, 1300, quoted_segment(ours, SeqNum(1))));
  ASSERT_EQ(classify_frame(frame), InputKind::kIcmpError);
  EXPECT_EQ(out_.icmp_error.tuple, ours);
  EXPECT_EQ(out_.icmp_error.mtu_bytes, 1300u);
  const FourTuple others{{kPeerIp, 5}, {kOwnIp, 6}};
  EXPECT_EQ(drop_of(ip_frame(wire::kIpProtocolIcmp,
                             icmp_message(3, 4, 1300, quoted_segment(others, SeqNum(1))))),
            Drop::kIcmpBadQuote);
}

}  // namespace
}  // namespace lyre::ip
