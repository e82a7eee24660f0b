#include "stack/worker/neighbourhood.h"

#include <gtest/gtest.h>

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

TEST_F(TentativePort, SessionsFromAnAddressThatAnotherHostHasAreEnded) {
  attach();
  const uint32_t other = open();
  uint32_t conn = UINT32_MAX;
  ASSERT_EQ(lifecycle.open(kContext, {kOwn6, 0}, {kPeer6, 80}, 0, conn), channel::EndStatus::kOk);
  lose_address();
  ASSERT_TRUE(neighbourhood.is_leaving_addresses());
  while (neighbourhood.is_leaving_addresses()) neighbourhood.leave_lost_addresses();
  EXPECT_EQ(state.session(conn).end_status, channel::EndStatus::kAddressLost);
  EXPECT_EQ(state.engine.state(conn), tcp::State::kClosed);
  EXPECT_EQ(state.engine.state(other), tcp::State::kSynSent);
}

}  // namespace
}  // namespace lyre::worker
