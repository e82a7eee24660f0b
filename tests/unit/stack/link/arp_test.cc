#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "stack/link/framing.h"
#include "stack/link/neighbours.h"
#include "tests/unit/stack/link/addresses.h"

namespace lyre::link {
namespace {

using wire::ArpOperation;
using wire::ArpPacket;

const IpAddress kOwnIp = IpAddress::v4(0x0a000001);
const IpAddress kSecondIp = IpAddress::v4(0x0b000001);
const IpAddress kPeerIp = IpAddress::v4(0x0a000002);
const InterfaceAddress kIpv4Addresses[] = {InterfaceAddress::of(kOwnIp, 24),
                                           InterfaceAddress::of(kSecondIp, 24)};

class ArpTest : public testing::Test {
 protected:
  ArpTest() {
    table_.set_port(0, {kOwnMac, kIpv4Addresses}, now_);
    for (int i = 0; i < kArpProbeCount; ++i) pass(kArpAnnounceInterval);
  }

  /// The packets that are due now.
  std::vector<NeighbourOut> run() {
    NeighbourOutList out;
    table_.on_timer(now_, out);
    return {out.begin(), out.end()};
  }
  std::vector<NeighbourOut> pass(Nanos span) {
    now_ += span;
    return run();
  }
  static bool is_probe(const NeighbourOut& sent) { return sent.arp.sender_ip == IpAddress::v4(0); }
  NeighbourHandled receive(ArpOperation operation, MacAddress mac, IpAddress ip, IpAddress target) {
    return table_.handle_arp(0, {operation, mac, ip, MacAddress{}, target}, now_);
  }
  Resolved resolve() { return table_.resolve(0, kPeerIp, now_); }

  Nanos now_ = seconds(100);
  Neighbours table_{1};
};

TEST_F(ArpTest, AnnouncesEveryAddressTwice) {
  // RFC 5227 1.1 and 2.3: ANNOUNCE_NUM announcements, ANNOUNCE_INTERVAL apart.
  Neighbours table(1);
  table.set_port(0, {kOwnMac, kIpv4Addresses}, now_);
  int announcements = 0;
  for (int i = 0; i < 10; ++i) {
    NeighbourOutList out;
    table.on_timer(now_, out);
    for (const NeighbourOut& sent : out) {
      EXPECT_EQ(sent.destination, kMacBroadcast);
      if (is_probe(sent)) continue;
      EXPECT_EQ(sent.arp.sender_ip, sent.arp.target_ip) << "RFC 5227 3";
      ++announcements;
    }
    now_ += seconds(1);
  }
  EXPECT_EQ(announcements, 2 * kArpAnnounceCount);
  EXPECT_EQ(table.next_deadline(), kNever);
}

TEST_F(ArpTest, ProbesForEveryAddressThreeTimes) {
  // RFC 5227 1.1 and 2.1.1: PROBE_NUM requests without a sender address, at most PROBE_MAX apart.
  Neighbours table(1);
  table.set_port(0, {kOwnMac, kIpv4Addresses}, now_);
  std::vector<IpAddress> probed;
  for (int i = 0; i < 10; ++i) {
    NeighbourOutList out;
    table.on_timer(now_, out);
    for (const NeighbourOut& sent : out) {
      if (!is_probe(sent)) continue;
      EXPECT_EQ(sent.arp.operation, ArpOperation::kRequest);
      EXPECT_EQ(sent.arp.sender_mac, kOwnMac);
      EXPECT_EQ(sent.arp.target_mac, MacAddress{});
      probed.push_back(sent.arp.target_ip);
    }
    now_ += seconds(1);
  }
  EXPECT_EQ(std::ranges::count(probed, kOwnIp), kArpProbeCount);
  EXPECT_EQ(std::ranges::count(probed, kSecondIp), kArpProbeCount);
}

// A kernel that has the address answers a probe, and no announcement.
TEST_F(ArpTest, AnAnswerToAProbeIsAConflict) {
  EXPECT_EQ(receive(ArpOperation::kReply, kOtherMac, kOwnIp, IpAddress::v4(0)).drop,
            Drop::kArpConflict);
}

TEST_F(ArpTest, ALinkThatComesUpIsANewStart) {
  receive(ArpOperation::kRequest, kPeerMac, kPeerIp, kOwnIp);
  ASSERT_EQ(resolve().answer, Answer::kKnown);
  const uint32_t before = table_.generation();
  table_.on_link_up(0, now_);
  EXPECT_NE(table_.generation(), before);
  const auto first = run();
  EXPECT_EQ(first.size(), 4u) << "of each address an announcement and a probe at once";
  EXPECT_EQ(std::ranges::count_if(first, is_probe), 2);
  EXPECT_EQ(pass(kArpAnnounceInterval).size(), 4u);
  EXPECT_EQ(pass(kArpAnnounceInterval).size(), 2u) << "the last probes";
  EXPECT_EQ(resolve().answer, Answer::kPending) << "the peer may be another one now";
}

TEST_F(ArpTest, AsksByBroadcastFromTheAddressOfThatNetwork) {
  EXPECT_EQ(resolve().answer, Answer::kPending);
  EXPECT_LE(table_.next_deadline(), now_);
  table_.resolve(0, IpAddress::v4(0x0b000007), now_);
  const auto sent = run();
  ASSERT_EQ(sent.size(), 2u);
  for (const NeighbourOut& each : sent) {
    EXPECT_EQ(each.destination, kMacBroadcast);
    EXPECT_EQ(each.arp.operation, ArpOperation::kRequest);
    EXPECT_EQ(each.arp.sender_mac, kOwnMac);
    EXPECT_EQ(each.arp.sender_ip, each.arp.target_ip == kPeerIp ? kOwnIp : kSecondIp);
  }
  const NeighbourHandled handled = receive(ArpOperation::kReply, kPeerMac, kPeerIp, kOwnIp);
  EXPECT_FALSE(handled.drop);
  EXPECT_FALSE(handled.reply);
  EXPECT_EQ(resolve().mac, kPeerMac);
}

TEST_F(ArpTest, AReplyConfirmsAndIsNotDoubted) {
  resolve();
  run();
  receive(ArpOperation::kReply, kPeerMac, kPeerIp, kOwnIp);
  resolve();
  EXPECT_TRUE(pass(kFirstProbeDelay).empty());
}

TEST_F(ArpTest, AnswersRequestsForItsAddressAndLearnsTheAsker) {
  const NeighbourHandled handled = receive(ArpOperation::kRequest, kPeerMac, kPeerIp, kOwnIp);
  ASSERT_TRUE(handled.reply);
  EXPECT_EQ(handled.reply->destination, kPeerMac);
  EXPECT_EQ(handled.reply->arp.operation, ArpOperation::kReply);
  EXPECT_EQ(handled.reply->arp.sender_ip, kOwnIp);
  EXPECT_EQ(handled.reply->arp.target_ip, kPeerIp);
  EXPECT_EQ(resolve().mac, kPeerMac);
  EXPECT_EQ(receive(ArpOperation::kRequest, kPeerMac, kPeerIp, kSecondIp).reply->arp.sender_ip,
            kSecondIp);
}

TEST_F(ArpTest, IgnoresRequestsForOthers) {
  const NeighbourHandled handled =
      receive(ArpOperation::kRequest, kPeerMac, kPeerIp, IpAddress::v4(0x0a000009));
  EXPECT_FALSE(handled.reply);
  EXPECT_EQ(handled.drop, Drop::kArpNotForUs);
  EXPECT_EQ(table_.cache().used(), 0u);
}

TEST_F(ArpTest, AGratuitousAnnouncementUpdatesWhatIsKnown) {
  receive(ArpOperation::kRequest, kPeerMac, kPeerIp, kOwnIp);
  const uint32_t before = table_.generation();
  const NeighbourHandled handled = receive(ArpOperation::kRequest, kOtherMac, kPeerIp, kPeerIp);
  EXPECT_FALSE(handled.drop);
  EXPECT_EQ(resolve().mac, kOtherMac);
  EXPECT_NE(table_.generation(), before);
}

TEST_F(ArpTest, AProbeIsAnsweredAndTeachesNothing) {
  const NeighbourHandled handled =
      receive(ArpOperation::kRequest, kPeerMac, IpAddress::v4(0), kOwnIp);
  EXPECT_TRUE(handled.reply);
  EXPECT_FALSE(handled.drop);
  EXPECT_EQ(table_.cache().used(), 0u);
}

TEST_F(ArpTest, ImpossibleSendersAreNotLearned) {
  const IpAddress bad_ips[] = {IpAddress::v4(0xffffffff), IpAddress::v4(0xe0000001),
                               IpAddress::v4(0x7f000001)};
  for (const IpAddress& ip : bad_ips) receive(ArpOperation::kRequest, kPeerMac, ip, kOwnIp);
  receive(ArpOperation::kRequest, kMacBroadcast, kPeerIp, kOwnIp);
  receive(ArpOperation::kRequest, MacAddress{}, kPeerIp, kOwnIp);
  EXPECT_EQ(table_.cache().used(), 0u);
}

TEST_F(ArpTest, ANeighbourInClassEIsLearned) {
  const IpAddress pod = IpAddress::v4(0xf0000102);
  table_.resolve(0, pod, now_);
  receive(ArpOperation::kReply, kPeerMac, pod, kOwnIp);
  EXPECT_EQ(table_.resolve(0, pod, now_).answer, Answer::kKnown);
}

TEST_F(ArpTest, OffLinkNeighboursAreLearnedOnlyWhenAskedFor) {
  const IpAddress gateway = IpAddress::v4(0xa9fe0101);
  receive(ArpOperation::kRequest, kPeerMac, gateway, kOwnIp);
  EXPECT_EQ(table_.cache().used(), 0u);
  table_.resolve(0, gateway, now_);
  receive(ArpOperation::kReply, kPeerMac, gateway, kOwnIp);
  EXPECT_EQ(table_.resolve(0, gateway, now_).answer, Answer::kKnown);
}

TEST_F(ArpTest, DefendsItsAddressOnceInTenSeconds) {
  // RFC 5227 2.4 (c).
  now_ += kArpDefendInterval;
  EXPECT_EQ(receive(ArpOperation::kReply, kOtherMac, kOwnIp, kPeerIp).drop, Drop::kArpConflict);
  const auto sent = run();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].arp.target_ip, kOwnIp);
  now_ += seconds(1);
  receive(ArpOperation::kReply, kOtherMac, kOwnIp, kPeerIp);
  EXPECT_TRUE(run().empty());
  EXPECT_EQ(receive(ArpOperation::kRequest, kOwnMac, kOwnIp, kOwnIp).drop, Drop::kArpNotForUs)
      << "our own frame, reflected";
}

TEST_F(ArpTest, APortWithoutAnAddressAsksAndAnswersNobody) {
  EXPECT_EQ(table_.resolve(1, kPeerIp, now_).answer, Answer::kUnreachable);
  EXPECT_EQ(table_.resolve(kPortsMax, kPeerIp, now_).answer, Answer::kUnreachable);
  const ArpPacket packet{ArpOperation::kRequest, kPeerMac, kPeerIp, MacAddress{}, kOwnIp};
  EXPECT_EQ(table_.handle_arp(1, packet, now_).drop, Drop::kArpNotForUs);
  EXPECT_EQ(table_.handle_arp(kPortsMax, packet, now_).drop, Drop::kArpNotForUs);
}

TEST(Framing, WritesAnArpFrame) {
  uint8_t memory[128];
  io::PacketBuf packet;
  packet.data = memory + 128;
  packet.headroom = 128;
  const ArpPacket arp{ArpOperation::kRequest, kOwnMac, kOwnIp, MacAddress{}, kPeerIp};
  write_arp_frame(packet, {kOwnMac, kMacBroadcast}, arp);
  ASSERT_EQ(packet.length, 42u);
  Drop drop{};
  const auto ethernet = wire::parse_ethernet(packet.bytes(), drop);
  ASSERT_TRUE(ethernet);
  EXPECT_EQ(ethernet->source, kOwnMac);
  EXPECT_EQ(ethernet->destination, kMacBroadcast);
  const auto back = wire::parse_arp(packet.bytes().subspan(14), drop);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->target_ip, kPeerIp);
}

}  // namespace
}  // namespace lyre::link
