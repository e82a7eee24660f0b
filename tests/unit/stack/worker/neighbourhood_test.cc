#include "stack/worker/neighbourhood.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "stack/base/ipv6_address.h"
#include "tests/support/silent_queue.h"
#include "tests/unit/stack/worker/worker_parts.h"

namespace lyre::worker {
namespace {

class NeighbourhoodTest : public WorkerParts {
 protected:
  static wire::ArpPacket request_of_peer() {
    return {.sender_mac = kPeerMac, .sender_ip = kPeer.address, .target_ip = kOwn};
  }
  bool knows(const IpAddress& neighbour) {
    return state.neighbours.resolve(0, neighbour, state.now).answer == link::Answer::kKnown;
  }
};

TEST_F(NeighbourhoodTest, ARequestForAnOwnAddressIsAnsweredAndItsSenderLearned) {
  neighbourhood.on_arp(0, request_of_peer());
  EXPECT_TRUE(knows(kPeer.address));
  EXPECT_EQ(take_frames().size(), 1u);
}

TEST_F(NeighbourhoodTest, WhatAnotherWorkerReceivedIsOnlyLearned) {
  neighbourhood.on_update({.kind = WorkerMessage::Kind::kNeighbourUpdate,
                           .body = WorkerMessage::ArpUpdate{0, request_of_peer()}});
  EXPECT_TRUE(knows(kPeer.address));
  EXPECT_TRUE(take_frames().empty()) << "the worker that received it answers";
}

TEST_F(NeighbourhoodTest, AClaimOfAnOwnAddressIsCountedByTheWorkerThatReceivedIt) {
  wire::ArpPacket claim = request_of_peer();
  claim.sender_ip = kOwn;
  neighbourhood.on_update(
      {.kind = WorkerMessage::Kind::kNeighbourUpdate, .body = WorkerMessage::ArpUpdate{0, claim}});
  EXPECT_EQ(drops(Drop::kArpConflict), 0u);
  neighbourhood.on_arp(0, claim);
  EXPECT_EQ(drops(Drop::kArpConflict), 1u);
}

TEST_F(NeighbourhoodTest, TheStatsSegmentSaysWhoClaimsAnAddress) {
  channel::ClaimView view;
  neighbourhood.on_arp(0, request_of_peer());
  EXPECT_FALSE(queues[0].claim.read(view));
  wire::ArpPacket claim = request_of_peer();
  claim.sender_ip = kOwn;
  neighbourhood.on_arp(0, claim);
  ASSERT_TRUE(queues[0].claim.read(view));
  EXPECT_EQ(std::to_array(view.address), kOwn.bytes);
  EXPECT_EQ(std::to_array(view.mac), kPeerMac.bytes);
  EXPECT_EQ(view.seen_unix_ns, state.now.value + state.config.unix_offset_ns);
}

TEST_F(NeighbourhoodTest, AGatewayOutsideThePrefixIsReachedDirectly) {
  const IpAddress gateway = IpAddress::v4(0x0b000001);
  const IpAddress far_away = IpAddress::v4(0xc0000201);
  ASSERT_FALSE(state.routes.lookup(far_away).has_value());
  neighbourhood.add_route(0, ip::Prefix::all_of_family(gateway), gateway);
  const auto route = state.routes.lookup(far_away);
  ASSERT_TRUE(route.has_value());
  EXPECT_EQ(route->next_hop, gateway);
  EXPECT_EQ(route->source, kOwn);
}

/// Of a port by AF_XDP.
class QueueBesideKernel : public test::SilentQueue {
 public:
  const io::IoCapabilities& capabilities() const override { return capabilities_; }

 private:
  const io::IoCapabilities capabilities_{.mac = {{2, 0, 0, 0, 0, 7}}, .is_beside_kernel = true};
};

// Its solicitations left from an address whose packets the kernel gets, so a router with a
// link-local address was never resolved.
TEST_F(NeighbourhoodTest, APortBesideTheKernelHasOnlyTheAddressesThatItIsGiven) {
  constexpr IpAddress kOwn6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  constexpr IpAddress kFarAway6{{0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  const IpAddress router = link_local_address(kPeerMac);
  QueueBesideKernel queue;
  neighbourhood.add_port(
      {.io = &queue, .addresses = {{kOwn6, 64}}, .gateways = {router}, .mtu_bytes = 1500});
  EXPECT_FALSE(state.routes.is_own(link_local_address(queue.capabilities().mac)));
  const auto route = state.routes.lookup(kFarAway6);
  ASSERT_TRUE(route.has_value());
  EXPECT_EQ(route->next_hop, router);
  EXPECT_EQ(route->source, kOwn6);
}

/// Worker `kSelf` of four on one port, while the other ones sleep.
class OneOfFourWorkers : public NeighbourhoodTest {
 protected:
  static constexpr uint32_t kCount = 4;
  static constexpr uint32_t kSelf = 1;
  static constexpr uint32_t kOther = 3;

  OneOfFourWorkers() {
    state.router = ConnectionRouter(
        {.index = kSelf, .worker_count = kCount, .rings = &rings, .claims_max = 8, .key = {1, 2}});
    state.neighbours = link::Neighbours(1, &board, kSelf);
    const InterfaceAddress own = InterfaceAddress::of(kOwn, 24);
    state.neighbours.set_port(0, {.mac = state.ports[0].mac(), .addresses = {&own, 1}}, state.now);
    for (uint32_t i = 0; i < kCount; ++i) {
      bells[i] = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
      rings.set_doorbell(i, {&sleeps, bells[i]});
    }
  }
  ~OneOfFourWorkers() override {
    for (const int bell : bells) ::close(bell);
  }
  /// The workers that a packet was sent to.
  uint64_t told() {
    uint64_t workers = 0;
    WorkerMessage message;
    for (uint32_t to = 0; to < kCount; ++to) {
      while (rings.ring(kSelf, to).try_take(message)) workers |= uint64_t{1} << to;
    }
    return workers;
  }
  /// The workers that were woken at the end of the turn.
  uint64_t woken() {
    state.router.end_turn();
    uint64_t workers = 0;
    for (uint32_t i = 0; i < kCount; ++i) {
      eventfd_t count = 0;
      if (::eventfd_read(bells[i], &count) == 0) workers |= uint64_t{1} << i;
    }
    return workers;
  }
  static wire::ArpPacket announcement_of(const IpAddress& stranger) {
    return {.sender_mac = kPeerMac, .sender_ip = stranger, .target_ip = stranger};
  }

  static constexpr uint64_t kOthers = 0b1101;
  static inline const IpAddress kStranger = IpAddress::v4(0x0a090007);
  InterWorkerRings rings{kCount};
  link::NeighbourBoard board{{5, 6}, kCount};
  link::BoardSeat other{board, kOther};
  const std::atomic<uint32_t> sleeps{1};
  int bells[kCount];
};

// A stray broadcast cost its receiver a message and a doorbell for each other worker.
TEST_F(OneOfFourWorkers, WhatStrangersTellEachOtherGoesToNobody) {
  neighbourhood.on_arp(
      0, {.sender_mac = kPeerMac, .sender_ip = kStranger, .target_ip = IpAddress::v4(0x0a090008)});
  neighbourhood.on_arp(0, announcement_of(kStranger));
  EXPECT_EQ(drops(Drop::kArpNotForUs), 2u);
  EXPECT_EQ(told(), 0u);
  EXPECT_EQ(woken(), 0u);
}

// It may have moved: each worker that sends to it needs its new MAC, but not before it sends.
TEST_F(OneOfFourWorkers, AnAnnouncementReachesThoseThatKnowTheHost) {
  other.add(0, kStranger);
  neighbourhood.on_arp(0, announcement_of(kStranger));
  EXPECT_EQ(told(), uint64_t{1} << kOther);
  EXPECT_EQ(woken(), 0u);
}

TEST_F(OneOfFourWorkers, AWorkerThatWaitsForAnAnswerIsWoken) {
  other.add(0, kStranger);
  other.begin_wait(0, kStranger);
  neighbourhood.on_arp(0, {.operation = wire::ArpOperation::kReply,
                           .sender_mac = kPeerMac,
                           .sender_ip = kStranger,
                           .target_mac = state.ports[0].mac(),
                           .target_ip = kOwn});
  EXPECT_NE(told() & uint64_t{1} << kOther, 0u);
  EXPECT_EQ(woken(), uint64_t{1} << kOther);
}

TEST_F(OneOfFourWorkers, ANewNeighbourIsToldToAllOnceAndWakesNobody) {
  neighbourhood.on_arp(0, request_of_peer());
  EXPECT_EQ(told(), kOthers);
  neighbourhood.on_arp(0, request_of_peer());
  EXPECT_EQ(told(), 0u);
  EXPECT_EQ(woken(), 0u);
  wire::ArpPacket moved = request_of_peer();
  moved.sender_mac = {{2, 0, 0, 0, 0, 10}};
  neighbourhood.on_arp(0, moved);
  EXPECT_EQ(told(), kOthers);
}

TEST_F(OneOfFourWorkers, AClaimGoesToTheWorkerThatDefends) {
  wire::ArpPacket claim = request_of_peer();
  claim.sender_ip = kOwn;
  neighbourhood.on_arp(0, claim);
  EXPECT_EQ(told(), uint64_t{1} << link::kSpeaker);
  EXPECT_EQ(woken(), uint64_t{1} << link::kSpeaker);
}

/// The same worker with a second port, of IPv6, which learns routers. It uses the first of its
/// addresses, and still probes for the second one.
class OneOfFourWithIpv6 : public OneOfFourWorkers {
 protected:
  using NdpType = wire::NdpType;
  static constexpr uint8_t kPort6 = 1;
  static constexpr IpAddress kOwn6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  static constexpr IpAddress kPeer6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
  static constexpr IpAddress kTentative6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}};
  static constexpr IpAddress kRouter6 = link_local_address(kPeerMac);

  OneOfFourWithIpv6() {
    neighbourhood.add_port({.io = &second_link.add_queue(0, memory, kPort6),
                            .addresses = {{kOwn6, 64}, {kTentative6, 64}},
                            .verified_addresses = {kOwn6},
                            .takes_routers = true});
    neighbourhood.update_routes();
  }
  static link::NdpArrival message_of(NdpType type, const IpAddress& source,
                                     const IpAddress& target = {}) {
    link::NdpArrival out{.sender_mac = kPeerMac};
    out.packet.addresses = {source, kAllNodes};
    out.packet.message.type = type;
    out.packet.message.target = target;
    out.packet.message.source_mac = out.packet.message.target_mac = kPeerMac;
    return out;
  }
  static link::NdpArrival router_for(uint16_t seconds) {
    link::NdpArrival out = message_of(NdpType::kRouterAdvertisement, kRouter6);
    out.packet.message.router_lifetime_s = seconds;
    return out;
  }

  io::sim::Link second_link{{}};
};

TEST_F(OneOfFourWithIpv6, ARouterIsToldToAllAndWakesThemWhenItComesOrLeaves) {
  for (const uint16_t lifetime_s : {uint16_t{1800}, uint16_t{0}}) {
    neighbourhood.on_ndp(kPort6, router_for(lifetime_s));
    EXPECT_EQ(told(), kOthers);
    EXPECT_EQ(woken(), kOthers);
  }
  neighbourhood.on_ndp(kPort6, router_for(1800));
  told();
  woken();
  neighbourhood.on_ndp(kPort6, router_for(1800));
  EXPECT_EQ(told(), kOthers) << "its lifetime begins again";
  EXPECT_EQ(woken(), 0u);
}

TEST_F(OneOfFourWithIpv6, AnAdvertisementReachesThoseThatKnowTheNeighbour) {
  const link::NdpArrival answer = message_of(NdpType::kNeighbourAdvertisement, kPeer6, kPeer6);
  neighbourhood.on_ndp(kPort6, answer);
  EXPECT_EQ(told(), 0u);
  other.add(kPort6, kPeer6);
  neighbourhood.on_ndp(kPort6, answer);
  EXPECT_EQ(drops(Drop::kNdpNotForUs), 2u) << "this worker does not know it";
  EXPECT_EQ(told(), uint64_t{1} << kOther);
  EXPECT_EQ(woken(), 0u);
  other.begin_wait(kPort6, kPeer6);
  neighbourhood.on_ndp(kPort6, answer);
  EXPECT_EQ(told(), uint64_t{1} << kOther);
  EXPECT_EQ(woken(), uint64_t{1} << kOther);
}

// A router that did not answer one of them may have been found by this one meanwhile.
TEST_F(OneOfFourWithIpv6, EachSolicitationOfARouterIsToldToAll) {
  const link::NdpArrival of_peer = message_of(NdpType::kNeighbourSolicitation, kPeer6, kOwn6);
  neighbourhood.on_ndp(kPort6, of_peer);
  EXPECT_EQ(told(), kOthers) << "a new neighbour";
  neighbourhood.on_ndp(kPort6, of_peer);
  EXPECT_EQ(told(), 0u);
  neighbourhood.on_ndp(kPort6, router_for(1800));
  told();
  woken();
  for (int i = 0; i < 2; ++i) {
    neighbourhood.on_ndp(kPort6, message_of(NdpType::kNeighbourSolicitation, kRouter6, kOwn6));
    EXPECT_EQ(told(), kOthers);
    EXPECT_EQ(woken(), 0u);
  }
}

TEST_F(OneOfFourWithIpv6, AnOwnerOfAnAddressOfOursIsToldToAllAndWakesThem) {
  link::NdpArrival probe = message_of(NdpType::kNeighbourSolicitation, IpAddress{}, kTentative6);
  probe.packet.message.source_mac.reset();
  neighbourhood.on_ndp(kPort6, probe);
  EXPECT_EQ(drops(Drop::kNdpConflict), 1u);
  EXPECT_EQ(told(), kOthers);
  EXPECT_EQ(woken(), kOthers);
}

// The others would drop it, too.
TEST_F(OneOfFourWithIpv6, WhatEveryWorkerDropsGoesToNobody) {
  other.add(kPort6, kPeer6);
  other.add(0, kRouter6);
  neighbourhood.on_ndp(kPort6, message_of(NdpType::kRouterSolicitation, kPeer6));
  neighbourhood.on_ndp(kPort6, message_of(NdpType::kRedirect, kPeer6, kPeer6));
  neighbourhood.on_ndp(kPort6, message_of(NdpType::kNeighbourSolicitation, kPeer6, kRouter6));
  neighbourhood.on_ndp(0, router_for(1800));
  EXPECT_EQ(drops(Drop::kNdpNotForUs), 4u);
  EXPECT_EQ(told(), 0u);
  neighbourhood.on_ndp(kPort6, router_for(1800));
  EXPECT_GT(told(), 0u);
  neighbourhood.on_ndp(kPort6, message_of(NdpType::kNeighbourSolicitation, kRouter6, kPeer6));
  EXPECT_EQ(drops(Drop::kNdpNotForUs), 5u);
  EXPECT_EQ(told(), 0u) << "of a router for another host";
}

/// A second port, with an address of IPv6 that it still probes for.
class TentativePort : public NeighbourhoodTest {
 protected:
  static constexpr uint8_t kPort6 = 1;
  static constexpr IpAddress kOwn6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  static constexpr IpAddress kPeer6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

  TentativePort() {
    neighbourhood.add_port({.io = &second_link.add_queue(0, memory, kPort6),
                            .addresses = {{kOwn6, 64}},
                            .mtu_bytes = 1500});
    neighbourhood.update_routes();
  }
  void pass(Nanos span) {
    for (const Nanos end = state.now + span; state.now < end; state.now += millis(50)) {
      neighbourhood.run_timers();
      transmission.transmit();
    }
  }
  /// A session from the port's address.
  uint32_t open6() {
    uint32_t conn = UINT32_MAX;
    EXPECT_EQ(lifecycle.open(kContext, {kOwn6, 0}, {kPeer6, 80}, 0, conn), channel::EndStatus::kOk);
    return conn;
  }
  /// Another host says that it has our address.
  void lose_address() {
    link::NdpArrival claim{.sender_mac = kPeerMac};
    claim.packet.addresses = {kOwn6, kAllNodes};
    claim.packet.message.type = wire::NdpType::kNeighbourAdvertisement;
    claim.packet.message.target = kOwn6;
    claim.packet.message.target_mac = kPeerMac;
    neighbourhood.on_ndp(kPort6, claim);
  }

  io::sim::Link second_link{{}};
};

TEST_F(TentativePort, HasALinkLocalAddressOfItsMac) {
  EXPECT_TRUE(state.routes.is_own(link_local_address(state.ports[kPort6].mac())));
}

// Its probe was lost: only what arrives while the link is up can say that another host has it.
TEST_F(TentativePort, ItsAddressesAreCheckedOnceItHasALink) {
  second_link.set_up(false);
  pass(seconds(10));
  EXPECT_FALSE(state.routes.accepts(kOwn6));
  second_link.set_up(true);
  state.neighbours.on_link_up(kPort6, state.now);
  neighbourhood.run_timers();
  EXPECT_FALSE(state.routes.accepts(kOwn6));
  pass(seconds(3));
  EXPECT_TRUE(state.routes.accepts(kOwn6));
}

// Its connections waited for connect_timeout_ms.
TEST_F(TentativePort, ConnectionsWaitForALinkAsForANeighbour) {
  attach();
  second_link.set_up(false);
  const uint32_t early = open6();
  pass(seconds(2));
  EXPECT_EQ(state.engine.state(early), tcp::State::kSynSent);
  pass(seconds(2));
  EXPECT_EQ(state.session(early).end_status, channel::EndStatus::kNoNeighbour);
  EXPECT_EQ(state.engine.state(early), tcp::State::kClosed);
  second_link.set_up(true);
  pass(link::kLinkLookInterval + millis(50));
  const uint32_t late = open6();
  pass(millis(50));
  EXPECT_EQ(state.engine.state(late), tcp::State::kSynSent);
}

TEST_F(TentativePort, SessionsFromAnAddressThatAnotherHostHasAreEnded) {
  attach();
  const uint32_t other = open();
  const uint32_t conn = open6();
  lose_address();
  ASSERT_TRUE(neighbourhood.is_leaving_addresses());
  while (neighbourhood.is_leaving_addresses()) neighbourhood.leave_lost_addresses();
  EXPECT_EQ(state.session(conn).end_status, channel::EndStatus::kAddressLost);
  EXPECT_EQ(state.engine.state(conn), tcp::State::kClosed);
  EXPECT_EQ(state.engine.state(other), tcp::State::kSynSent);
}

}  // namespace
}  // namespace lyre::worker
