#include <gtest/gtest.h>

#include <algorithm>

#include "stack/ip/input.h"
#include "stack/ip/output.h"
#include "tests/unit/stack/ip/frame_builder.h"

namespace lyre::ip {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint8_t kUdp = 17;
const Bytes kPing = {'p', 'i', 'n', 'g'};

/// The peer's segment to us.
TcpOutput segment_from_ipv6_peer(uint32_t payload_bytes) {
  TcpOutput out;
  out.frame = {kPeerMac, kOwnMac};
  out.tuple = {{kPeerIp6, 4000}, {kOwnIp6, 80}};
  out.header.seq = SeqNum(1000);
  out.header.flags.set(wire::TcpFlags::kAck);
  out.payload_bytes = payload_bytes;
  out.flow_label = 0xabcde;
  out.ecn = wire::Ecn::kCe;
  return out;
}

Bytes echo_request(const Ipv6Route& route = {}) {
  return ipv6_frame(wire::kIpProtocolIcmpv6,
                    icmpv6_message(wire::kIcmpv6EchoRequest, 0, 0x10002, kPing, route), route);
}

class InputIpv6Test : public testing::Test {
 protected:
  InputIpv6Test() {
    routes_.add_address(0, kOwnIp, 96 + 24);
    routes_.add_address(0, kOwnIp6, 64);
  }

  InputKind classify_frame(Bytes& frame, Origin origin = Origin::kWire) {
    return classify(received(frame), kOwnMac, routes_, origin, out_);
  }
  Drop drop_of(Bytes frame) {
    EXPECT_EQ(classify_frame(frame), InputKind::kDrop);
    return out_.drop;
  }
  InputKind solicit(const IpAddress& source, uint8_t hop_limit = wire::kNdpHopLimit) {
    const Ipv6Route route{source, solicited_node_group(kOwnIp6), hop_limit};
    Bytes body(kOwnIp6.bytes.begin(), kOwnIp6.bytes.end());
    frame_ = ipv6_frame(wire::kIpProtocolIcmpv6, icmpv6_message(135, 0, 0, body, route), route);
    return classify_frame(frame_);
  }

  RouteTable routes_;
  Classified out_;
  Bytes frame_;
};

TEST_F(InputIpv6Test, ASegmentArrivesAsItWasSent) {
  Bytes frame = tcp_frame(segment_from_ipv6_peer(100));
  Drop drop{};
  const auto ip = wire::parse_ipv6(std::span(frame).subspan(14), drop);
  ASSERT_TRUE(ip);
  EXPECT_EQ(ip->flow_label, 0xabcdeu);
  EXPECT_EQ(ip->hop_limit, 64);
  ASSERT_EQ(classify_frame(frame), InputKind::kTcp);
  EXPECT_EQ(out_.tcp.tuple, (FourTuple{{kOwnIp6, 80}, {kPeerIp6, 4000}}));
  EXPECT_EQ(out_.tcp.parsed.header.seq, SeqNum(1000));
  EXPECT_EQ(out_.tcp.ecn, wire::Ecn::kCe);
  ASSERT_EQ(out_.tcp.payload.size(), 100u);
  EXPECT_EQ(out_.tcp.payload[99], 99);
}

TEST_F(InputIpv6Test, ChecksumsAreLeftToThePortWhenSending) {
  TestPacket packet;
  write_tcp_packet(packet.buf, segment_from_ipv6_peer(0));
  EXPECT_TRUE(packet.buf.wants_checksums);
  EXPECT_EQ(packet.buf.l3_bytes, 40);
  EXPECT_EQ(packet.buf.l4_bytes, 20);
  EXPECT_EQ(wire::read_raw16(packet.buf.data + 14 + 40 + 16),
            wire::tcp_pseudo_sum(kPeerIp6, kOwnIp6, 20));
}

TEST_F(InputIpv6Test, APaddedFrameAndHeadersBetweenChangeNothing) {
  const Bytes plain = tcp_frame(segment_from_ipv6_peer(3));
  Bytes padding = {6, 0, 1, 4, 0, 0, 0, 0};
  padding.insert(padding.end(), plain.begin() + 54, plain.end());
  Bytes frame = ipv6_frame(60, padding);
  frame.resize(frame.size() + 20, 0xee);
  ASSERT_EQ(classify_frame(frame), InputKind::kTcp);
  EXPECT_EQ(out_.tcp.payload.size(), 3u);
}

TEST_F(InputIpv6Test, EachFlippedBitOfASegmentIsNoticed) {
  // No checksum covers traffic class, flow label and hop limit (RFC 8200 8.1).
  const Bytes good = tcp_frame(segment_from_ipv6_peer(40));
  for (size_t at = 18; at < good.size(); ++at) {
    if (at == 21) continue;
    Bytes bad = good;
    bad[at] ^= 0x04;
    EXPECT_NE(classify_frame(bad), InputKind::kTcp) << "byte " << at;
  }
}

TEST_F(InputIpv6Test, EveryTruncationIsDropped) {
  const Bytes good = tcp_frame(segment_from_ipv6_peer(40));
  for (size_t count = 0; count < good.size(); ++count) {
    Bytes bad(good.begin(), good.begin() + static_cast<ptrdiff_t>(count));
    EXPECT_EQ(classify_frame(bad), InputKind::kDrop) << count << " bytes";
  }
}

TEST_F(InputIpv6Test, ThePortsVerdictIsBelieved) {
  Bytes frame = tcp_frame(segment_from_ipv6_peer(10));
  frame.back() ^= 1;
  io::PacketBuf packet = received(frame);
  packet.l4_checksum = io::ChecksumVerdict::kGood;
  EXPECT_EQ(classify(packet, kOwnMac, routes_, Origin::kWire, out_), InputKind::kTcp);
  packet.l4_checksum = io::ChecksumVerdict::kBad;
  EXPECT_EQ(classify(packet, kOwnMac, routes_, Origin::kWire, out_), InputKind::kDrop);
  EXPECT_EQ(out_.drop, Drop::kTcpBadChecksum);
}

TEST_F(InputIpv6Test, PacketsToOthersAndFromNowhereAreDropped) {
  IpAddress other = kOwnIp6;
  other.bytes[15] = 9;
  IpAddress loopback{};
  loopback.bytes[15] = 1;
  EXPECT_EQ(drop_of(echo_request({kPeerIp6, other})), Drop::kIpNotForUs);
  EXPECT_EQ(drop_of(echo_request({kPeerIp6, kAllRouters})), Drop::kIpNotForUs);
  const Bytes payload(20);
  for (const IpAddress& bad : {loopback, kAllNodes, IpAddress{}, kOwnIp6}) {
    EXPECT_EQ(drop_of(ipv6_frame(6, payload, {bad})), Drop::kIpBadSource);
  }
  EXPECT_EQ(drop_of(echo_request({kOwnIp6})), Drop::kIpBadSource);
}

TEST_F(InputIpv6Test, AMappedAddressIsNoWayIntoConnectionsOfIpv4) {
  Bytes frame = tcp_frame(segment_from_ipv6_peer(5));
  std::copy(kPeerIp.bytes.begin(), kPeerIp.bytes.end(), frame.begin() + 14 + 8);
  EXPECT_EQ(drop_of(frame), Drop::kIpBadSource);
  std::copy(kOwnIp.bytes.begin(), kOwnIp.bytes.end(), frame.begin() + 14 + 24);
  EXPECT_EQ(drop_of(frame), Drop::kIpNotForUs);
}

TEST_F(InputIpv6Test, WhatIsNotOursYetIsNotTaken) {
  // RFC 4862 5.4.
  routes_.set_state(kOwnIp6, link::AddressState::kTentative);
  EXPECT_EQ(drop_of(tcp_frame(segment_from_ipv6_peer(1))), Drop::kIpNotForUs);
  EXPECT_EQ(solicit(IpAddress{}), InputKind::kNdp) << "a probe of another host must reach Ndp";
  routes_.set_state(kOwnIp6, link::AddressState::kUsable);
  Bytes frame = tcp_frame(segment_from_ipv6_peer(1));
  EXPECT_EQ(classify_frame(frame), InputKind::kTcp);
}

TEST_F(InputIpv6Test, UnicastInAMulticastFrameIsDropped) {
  Bytes frame = tcp_frame(segment_from_ipv6_peer(1));
  const MacAddress group = multicast_mac(kAllNodes);
  std::copy(group.bytes.begin(), group.bytes.end(), frame.begin());
  EXPECT_EQ(drop_of(frame), Drop::kEthNotForUs);
  std::fill(frame.begin(), frame.begin() + 6, 0xff);
  EXPECT_EQ(drop_of(frame), Drop::kEthNotForUs);
}

TEST_F(InputIpv6Test, FragmentsAreRefused) {
  const Bytes first = {6, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(drop_of(ipv6_frame(44, first)), Drop::kIpFragment);
}

TEST_F(InputIpv6Test, AnEchoRequestIsForTheResponder) {
  Bytes frame = echo_request();
  ASSERT_EQ(classify_frame(frame), InputKind::kEchoRequest);
  EXPECT_EQ(out_.echo.source, kPeerIp6);
  EXPECT_EQ(out_.echo.destination, kOwnIp6);
  EXPECT_EQ(out_.echo.icmp.body.size(), 4u);
  EXPECT_EQ(drop_of(echo_request({kPeerIp6, kAllNodes})), Drop::kIcmpIgnored);
  frame.back() ^= 1;
  EXPECT_EQ(drop_of(frame), Drop::kIcmpMalformed);
}

TEST_F(InputIpv6Test, NeighbourDiscoveryIsHeardInItsGroups) {
  ASSERT_EQ(solicit(kPeerIp6), InputKind::kNdp);
  EXPECT_EQ(out_.ndp.sender_mac, kPeerMac);
  EXPECT_EQ(out_.ndp.packet.addresses.source, kPeerIp6);
  EXPECT_EQ(out_.ndp.packet.message.target, kOwnIp6);
  EXPECT_EQ(solicit(kOwnIp6), InputKind::kNdp) << "a conflict, for Ndp to see";
  EXPECT_EQ(solicit(kPeerIp6, 254), InputKind::kDrop);
  EXPECT_EQ(out_.drop, Drop::kNdpMalformed);
}

TEST_F(InputIpv6Test, ARoutersQueryForListenersIsHeard) {
  const Ipv6Route route{link_local_address(kPeerMac), kAllNodes, 1};
  Bytes payload = {58, 0, 5, 2, 0, 0, 1, 0};
  const Bytes message = icmpv6_message(wire::kMldQuery, 0, 1000 << 16, Bytes(20), route);
  payload.insert(payload.end(), message.begin(), message.end());
  Bytes frame = ipv6_frame(0, payload, route);
  ASSERT_EQ(classify_frame(frame), InputKind::kMldQuery);
  EXPECT_EQ(out_.mld_query.response_ms_max, 1000u);
}

TEST_F(InputIpv6Test, FragmentedNeighbourDiscoveryIsRefused) {
  // RFC 6980 5, atomic fragments included.
  const Ipv6Route route{kPeerIp6, kOwnIp6, wire::kNdpHopLimit};
  const Bytes body(kOwnIp6.bytes.begin(), kOwnIp6.bytes.end());
  Bytes payload = {58, 0, 0, 0, 0, 0, 0, 1};
  const Bytes message = icmpv6_message(135, 0, 0, body, route);
  payload.insert(payload.end(), message.begin(), message.end());
  EXPECT_EQ(drop_of(ipv6_frame(44, payload, route)), Drop::kNdpMalformed);
}

TEST_F(InputIpv6Test, AnErrorAboutUsIsToldAboutOthersIsNot) {
  const FourTuple ours{{kOwnIp6, 5}, {kPeerIp6, 6}};
  const auto too_big = [](const FourTuple& tuple, uint32_t mtu_bytes) {
    return ipv6_frame(wire::kIpProtocolIcmpv6, icmpv6_message(wire::kIcmpv6TooBig, 0, mtu_bytes,
                                                              quoted_segment6(tuple, SeqNum(1))));
  };
  Bytes frame = too_big(ours, 1300);
  ASSERT_EQ(classify_frame(frame), InputKind::kIcmpError);
  EXPECT_EQ(out_.icmp_error.tuple, ours);
  EXPECT_EQ(out_.icmp_error.mtu_bytes, 1300u);
  EXPECT_EQ(drop_of(too_big(ours, 1279)), Drop::kIcmpMalformed) << "RFC 8201 4";
  EXPECT_EQ(drop_of(too_big({{kPeerIp6, 5}, {kOwnIp6, 6}}, 1300)), Drop::kIcmpBadQuote);
}

TEST_F(InputIpv6Test, HardAndSoftErrors) {
  // RFC 4443 3.1.
  using wire::IcmpVerdict;
  const auto verdict_of = [&](uint8_t type, uint8_t code) {
    const FourTuple ours{{kOwnIp6, 5}, {kPeerIp6, 6}};
    Bytes frame = ipv6_frame(wire::kIpProtocolIcmpv6,
                             icmpv6_message(type, code, 0, quoted_segment6(ours, SeqNum(1))));
    EXPECT_EQ(classify_frame(frame), InputKind::kIcmpError);
    return out_.icmp_error.verdict;
  };
  for (const uint8_t code : std::initializer_list<uint8_t>{1, 5, 6})
    EXPECT_EQ(verdict_of(1, code), IcmpVerdict::kUnreachable) << int{code};
  EXPECT_EQ(verdict_of(1, 4), IcmpVerdict::kRefused);
  for (const uint8_t code : std::initializer_list<uint8_t>{0, 2, 3})
    EXPECT_EQ(verdict_of(1, code), IcmpVerdict::kSoft) << int{code};
  EXPECT_EQ(verdict_of(3, 0), IcmpVerdict::kSoft);
  EXPECT_EQ(verdict_of(4, 1), IcmpVerdict::kRefused);
  EXPECT_EQ(verdict_of(4, 0), IcmpVerdict::kSoft);
}

TEST_F(InputIpv6Test, MessagesOfUnknownTypesAreIgnored) {
  // RFC 4443 2.1: errors are below 128, informational messages above.
  for (const uint8_t type : std::initializer_list<uint8_t>{0, 5, 100, 127, 144, 200, 255}) {
    EXPECT_EQ(drop_of(ipv6_frame(wire::kIpProtocolIcmpv6, icmpv6_message(type, 0, 0, kPing))),
              Drop::kIcmpIgnored)
        << int{type};
  }
}

TEST_F(InputIpv6Test, WhoSendsWhatIsNotKnownIsTold) {
  // RFC 8200 4 and 4.2.
  const Bytes payload(8);
  Bytes udp = ipv6_frame(kUdp, payload);
  ASSERT_EQ(classify_frame(udp), InputKind::kRefused);
  EXPECT_EQ(out_.drop, Drop::kIpUnknownProtocol);
  EXPECT_EQ(out_.refused.problem.code, wire::kProblemNextHeader);
  EXPECT_EQ(out_.refused.problem.pointer, 6u);
  EXPECT_EQ(out_.refused.source, kPeerIp6);
  EXPECT_EQ(out_.refused.destination, kOwnIp6);
  EXPECT_EQ(out_.refused.packet.size(), 48u);
  EXPECT_EQ(drop_of(ipv6_frame(59, payload)), Drop::kIpUnknownProtocol) << "no next header";

  const Bytes option = {6, 0, 0xc2, 4, 0, 0, 0, 0};
  Bytes frame = ipv6_frame(0, option);
  ASSERT_EQ(classify_frame(frame), InputKind::kRefused);
  EXPECT_EQ(out_.drop, Drop::kIpBadExtension);
}

TEST_F(InputIpv6Test, NoErrorIsToldOfAMulticastUnlessItAsksForOne) {
  // RFC 4443 2.4 (e.3).
  const Bytes payload(8);
  EXPECT_EQ(drop_of(ipv6_frame(kUdp, payload, {kPeerIp6, kAllNodes})), Drop::kIpUnknownProtocol);
  const Bytes option = {6, 0, 0x82, 4, 0, 0, 0, 0};
  Bytes frame = ipv6_frame(0, option, {kPeerIp6, kAllNodes});
  ASSERT_EQ(classify_frame(frame), InputKind::kRefused);
  EXPECT_TRUE(out_.refused.destination.is_unspecified()) << "the answer needs another source";
}

TEST_F(InputIpv6Test, LocalPacketsMayComeFromUs) {
  TcpOutput output = segment_from_ipv6_peer(5);
  output.tuple.local.address = kOwnIp6;
  Bytes frame = tcp_frame(output);
  EXPECT_EQ(drop_of(frame), Drop::kIpBadSource);
  EXPECT_EQ(classify_frame(frame, Origin::kLocal), InputKind::kTcp);
}

}  // namespace
}  // namespace lyre::ip
