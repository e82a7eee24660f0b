#include "stack/link/arp_table.h"

#include <gtest/gtest.h>

#include <vector>

#include "stack/link/framing.h"

namespace lyre::link {
namespace {

using wire::ArpOperation;
using wire::ArpPacket;

constexpr MacAddress kOwnMac{{2, 0, 0, 0, 0, 1}};
constexpr MacAddress kPeerMac{{2, 0, 0, 0, 0, 2}};
constexpr MacAddress kOtherMac{{2, 0, 0, 0, 0, 3}};
const IpAddress kOwnIp = IpAddress::v4(0x0a000001);
const IpAddress kPeerIp = IpAddress::v4(0x0a000002);

class ArpTableTest : public testing::Test {
 protected:
  ArpTableTest() {
    table_.set_port(0, kOwnMac, kOwnIp, 24, now_);
    run();
    pass(kArpAnnounceInterval);
  }

  /// What the table sends now.
  std::vector<ArpOut> run() {
    ArpOutList out;
    table_.on_timer(now_, out);
    return {out.begin(), out.end()};
  }
  std::vector<ArpOut> pass(Nanos span) {
    now_ += span;
    return run();
  }
  ArpHandled receive(ArpOperation operation, MacAddress mac, IpAddress ip, IpAddress target) {
    return table_.handle_arp(0, {operation, mac, ip, MacAddress{}, target}, now_);
  }
  ArpHandled receive_reply(MacAddress mac) {
    return receive(ArpOperation::kReply, mac, kPeerIp, kOwnIp);
  }
  Resolved resolve() { return table_.resolve(0, kPeerIp, now_); }
  void make_known() {
    resolve();
    run();
    receive_reply(kPeerMac);
  }

  Nanos now_ = seconds(100);
  ArpTable table_{1};
};

TEST_F(ArpTableTest, AnnouncesItselfTwice) {
  // RFC 5227 3: ANNOUNCE_NUM announcements, ANNOUNCE_INTERVAL apart.
  ArpTable table(1);
  table.set_port(0, kOwnMac, kOwnIp, 24, now_);
  int announcements = 0;
  for (int i = 0; i < 10; ++i) {
    ArpOutList out;
    table.on_timer(now_, out);
    for (const ArpOut& sent : out) {
      EXPECT_EQ(sent.destination, kMacBroadcast);
      EXPECT_EQ(sent.packet.sender_ip, kOwnIp);
      EXPECT_EQ(sent.packet.target_ip, kOwnIp);
      ++announcements;
    }
    now_ += seconds(1);
  }
  EXPECT_EQ(announcements, kArpAnnounceCount);
  EXPECT_EQ(table.next_deadline(), kNever);
}

TEST_F(ArpTableTest, AsksAtOnceAndLearnsTheReply) {
  EXPECT_EQ(resolve().answer, ArpAnswer::kPending);
  EXPECT_LE(table_.next_deadline(), now_);
  const auto sent = run();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].destination, kMacBroadcast);
  EXPECT_EQ(sent[0].packet.operation, ArpOperation::kRequest);
  EXPECT_EQ(sent[0].packet.sender_mac, kOwnMac);
  EXPECT_EQ(sent[0].packet.target_ip, kPeerIp);

  const uint32_t before = table_.generation();
  const ArpHandled handled = receive_reply(kPeerMac);
  EXPECT_FALSE(handled.drop);
  EXPECT_FALSE(handled.reply);
  EXPECT_NE(table_.generation(), before);
  EXPECT_EQ(resolve().answer, ArpAnswer::kKnown);
  EXPECT_EQ(resolve().mac, kPeerMac);
}

TEST_F(ArpTableTest, GivesUpAfterThreeTriesAndTriesAgainLater) {
  resolve();
  size_t requests = run().size();
  for (int i = 0; i < 5; ++i) requests += pass(kArpRetry).size();
  EXPECT_EQ(requests, kArpTriesMax);
  EXPECT_EQ(resolve().answer, ArpAnswer::kUnreachable);
  const uint32_t before = table_.generation();
  EXPECT_TRUE(pass(kArpUnreachableHold).empty());
  EXPECT_NE(table_.generation(), before);
  EXPECT_EQ(resolve().answer, ArpAnswer::kPending);
  EXPECT_EQ(run().size(), 1u);
}

TEST_F(ArpTableTest, ALateReplyMakesAnUnreachableHostKnown) {
  resolve();
  run();
  for (int i = 0; i < 3; ++i) pass(kArpRetry);
  ASSERT_EQ(resolve().answer, ArpAnswer::kUnreachable);
  receive_reply(kPeerMac);
  EXPECT_EQ(resolve().answer, ArpAnswer::kKnown);
}

TEST_F(ArpTableTest, AnEntryInUseIsRefreshedByUnicast) {
  make_known();
  now_ += seconds(30);
  resolve();
  const auto sent = pass(seconds(30));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].destination, kPeerMac);
  EXPECT_EQ(resolve().answer, ArpAnswer::kKnown) << "still used while it is confirmed";
  receive_reply(kPeerMac);
  EXPECT_TRUE(pass(seconds(10)).empty());
}

TEST_F(ArpTableTest, AnUnusedEntryIsForgottenInSilence) {
  make_known();
  EXPECT_TRUE(pass(seconds(61)).empty());
  EXPECT_EQ(table_.used(), 0u);
  EXPECT_EQ(table_.next_deadline(), kNever);
}

TEST_F(ArpTableTest, AHostThatMovedIsFoundByBroadcast) {
  make_known();
  now_ += seconds(59);
  resolve();
  std::vector<ArpOut> sent;
  for (int i = 0; i < 4; ++i) {
    for (const ArpOut& out : pass(kArpRetry)) sent.push_back(out);
  }
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_EQ(sent[2].destination, kPeerMac);
  EXPECT_EQ(sent[3].destination, kMacBroadcast);
  EXPECT_EQ(resolve().answer, ArpAnswer::kPending);
  receive_reply(kOtherMac);
  EXPECT_EQ(resolve().mac, kOtherMac);
}

TEST_F(ArpTableTest, AnswersRequestsForItsAddressAndLearnsTheAsker) {
  const ArpHandled handled = receive(ArpOperation::kRequest, kPeerMac, kPeerIp, kOwnIp);
  ASSERT_TRUE(handled.reply);
  EXPECT_EQ(handled.reply->destination, kPeerMac);
  EXPECT_EQ(handled.reply->packet.operation, ArpOperation::kReply);
  EXPECT_EQ(handled.reply->packet.sender_ip, kOwnIp);
  EXPECT_EQ(handled.reply->packet.target_ip, kPeerIp);
  ASSERT_TRUE(handled.learned);
  EXPECT_EQ(resolve().mac, kPeerMac);
}

TEST_F(ArpTableTest, IgnoresRequestsForOthers) {
  const ArpHandled handled =
      receive(ArpOperation::kRequest, kPeerMac, kPeerIp, IpAddress::v4(0x0a000009));
  EXPECT_FALSE(handled.reply);
  EXPECT_EQ(handled.drop, Drop::kArpNotForUs);
  EXPECT_EQ(table_.used(), 0u);
}

TEST_F(ArpTableTest, AGratuitousAnnouncementUpdatesWhatIsKnown) {
  make_known();
  const uint32_t before = table_.generation();
  const ArpHandled handled = receive(ArpOperation::kRequest, kOtherMac, kPeerIp, kPeerIp);
  EXPECT_FALSE(handled.drop);
  EXPECT_EQ(resolve().mac, kOtherMac);
  EXPECT_NE(table_.generation(), before);
}

TEST_F(ArpTableTest, AProbeIsAnsweredAndTeachesNothing) {
  const ArpHandled handled = receive(ArpOperation::kRequest, kPeerMac, IpAddress::v4(0), kOwnIp);
  EXPECT_TRUE(handled.reply);
  EXPECT_FALSE(handled.learned);
  EXPECT_EQ(table_.used(), 0u);
}

TEST_F(ArpTableTest, ImpossibleSendersAreNotLearned) {
  const IpAddress bad_ips[] = {IpAddress::v4(0xffffffff), IpAddress::v4(0xe0000001),
                               IpAddress::v4(0x7f000001)};
  for (const IpAddress& ip : bad_ips) receive(ArpOperation::kRequest, kPeerMac, ip, kOwnIp);
  receive(ArpOperation::kRequest, kMacBroadcast, kPeerIp, kOwnIp);
  receive(ArpOperation::kRequest, MacAddress{}, kPeerIp, kOwnIp);
  EXPECT_EQ(table_.used(), 0u);
}

TEST_F(ArpTableTest, OffLinkNeighboursAreLearnedOnlyWhenAskedFor) {
  const IpAddress gateway = IpAddress::v4(0xa9fe0101);
  receive(ArpOperation::kRequest, kPeerMac, gateway, kOwnIp);
  EXPECT_EQ(table_.used(), 0u);
  table_.resolve(0, gateway, now_);
  receive(ArpOperation::kReply, kPeerMac, gateway, kOwnIp);
  EXPECT_EQ(table_.resolve(0, gateway, now_).answer, ArpAnswer::kKnown);
}

TEST_F(ArpTableTest, DefendsItsAddressOnceInTenSeconds) {
  // RFC 5227 2.4 (c).
  now_ += kArpDefendInterval;
  EXPECT_EQ(receive(ArpOperation::kReply, kOtherMac, kOwnIp, kPeerIp).drop, Drop::kArpConflict);
  const auto sent = run();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].packet.target_ip, kOwnIp);
  now_ += seconds(1);
  receive(ArpOperation::kReply, kOtherMac, kOwnIp, kPeerIp);
  EXPECT_TRUE(run().empty());
  EXPECT_EQ(receive(ArpOperation::kRequest, kOwnMac, kOwnIp, kOwnIp).drop, Drop::kArpNotForUs)
      << "our own frame, reflected";
}

TEST_F(ArpTableTest, AnotherWorkersNewsIsUsed) {
  resolve();
  run();
  table_.learn({0, kPeerIp, kPeerMac, false}, now_);
  EXPECT_EQ(resolve().mac, kPeerMac);
  table_.learn({0, IpAddress::v4(0x0a000077), kOtherMac, false}, now_);
  EXPECT_EQ(table_.used(), 1u) << "nobody here asked for that one";
}

TEST_F(ArpTableTest, AFloodOfRequestsDoesNotEvictWhatIsInUse) {
  ArpTable table(2);
  table.set_port(0, kOwnMac, IpAddress::v4(0x0a000001), 8, now_);
  table.learn({0, kPeerIp, kPeerMac, true}, now_);
  table.resolve(0, kPeerIp, now_);
  for (uint32_t i = 0; i < 20'000; ++i) {
    const ArpPacket packet{ArpOperation::kRequest, kOtherMac, IpAddress::v4(0x0a010000 + i),
                           MacAddress{}, kOwnIp};
    table.handle_arp(0, packet, now_);
  }
  EXPECT_EQ(table.used(), kArpEntriesMax);
  EXPECT_EQ(table.resolve(0, kPeerIp, now_).mac, kPeerMac);
}

TEST_F(ArpTableTest, MoreRequestsThanFitLeaveWithTheNextCalls) {
  for (uint32_t i = 0; i < 100; ++i) table_.resolve(0, IpAddress::v4(0x0a000064 + i), now_);
  EXPECT_EQ(table_.used(), 100u);
  size_t requests = 0;
  int calls = 0;
  while (table_.next_deadline() <= now_) {
    requests += run().size();
    ASSERT_LT(++calls, 10);
  }
  EXPECT_EQ(requests, 100u);
}

TEST_F(ArpTableTest, PortsAreApart) {
  make_known();
  EXPECT_EQ(table_.resolve(1, kPeerIp, now_).answer, ArpAnswer::kUnreachable);
  table_.set_port(1, kOtherMac, IpAddress::v4(0x0a000003), 24, now_);
  EXPECT_EQ(table_.resolve(1, kPeerIp, now_).answer, ArpAnswer::kPending);
  EXPECT_EQ(table_.resolve(kPortsMax, kPeerIp, now_).answer, ArpAnswer::kUnreachable);
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
