#include "stack/worker/transmission.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "stack/base/ipv6_address.h"
#include "tests/unit/stack/worker/connected_parts.h"

namespace lyre::worker {
namespace {

class TransmissionTest : public WorkerParts {
 protected:
  TransmissionTest() { attach(); }
};

TEST_F(TransmissionTest, WithoutSessionsThereIsNothingToDo) {
  EXPECT_FALSE(transmission.has_work());
  EXPECT_EQ(transmission.transmit(), 0u);
  EXPECT_EQ(transmission.next_deadline(), kNever);
}

TEST_F(TransmissionTest, ASessionWaitsForItsNeighbourAndTcpIsNotAsked) {
  const uint32_t conn = open();
  EXPECT_TRUE(transmission.has_work());
  EXPECT_EQ(transmission.transmit(), 0u);
  EXPECT_FALSE(transmission.has_work());
  EXPECT_EQ(stats.tcp_segments_out.get(), 0u);
  EXPECT_TRUE(state.engine.is_open(conn));
}

// Its user pays for it: the unanswered questions of another one do not delay it.
TEST_F(TransmissionTest, TheNeighbourThatASessionWaitsForIsUrgent) {
  open();
  transmission.transmit();
  const link::Neighbour* wanted = state.neighbours.cache().table(0).at(0);
  ASSERT_NE(wanted, nullptr);
  EXPECT_TRUE(wanted->is_urgent);
}

TEST_F(TransmissionTest, ANeighbourThatIsLearnedWakesIt) {
  open();
  transmission.transmit();
  learn_peer();
  EXPECT_EQ(transmission.transmit(), 1u);
  EXPECT_EQ(stats.tcp_segments_out.get(), 1u);
  EXPECT_FALSE(transmission.has_work());
}

TEST_F(TransmissionTest, EachSessionHasItsTurn) {
  learn_peer();
  for (uint32_t i = 0; i < kConnectionsMax; ++i) open();
  EXPECT_EQ(transmission.transmit(), size_t{kConnectionsMax});
  EXPECT_EQ(take_frames().size(), size_t{kConnectionsMax});
}

/// A second port, with an address of IPv6, has learned two routers.
class LearnedRouters : public TransmissionTest {
 protected:
  static constexpr MacAddress kFirstMac{{2, 0, 0, 0, 0, 0x11}};
  static constexpr MacAddress kSecondMac{{2, 0, 0, 0, 0, 0x12}};
  static constexpr IpAddress kOwn6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  static constexpr IpAddress kFar6{{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

  LearnedRouters() {
    io::PacketIo& io = second_link.add_queue(0, memory, 1);
    second_link.add_queue(1, far_memory);
    neighbourhood.add_port(
        {.io = &io,
         .addresses = {{kOwn6, 64}},
         .verified_addresses = {kOwn6, link_local_address(io.capabilities().mac)},
         .takes_routers = true,
         .mtu_bytes = 1500});
    neighbourhood.update_routes();
    for (const MacAddress& mac : {kFirstMac, kSecondMac}) advertise(mac, 9000);
  }
  void advertise(MacAddress mac, uint16_t lifetime_s, wire::RouterPreference preference = {}) {
    wire::NdpMessage message;
    message.type = wire::NdpType::kRouterAdvertisement;
    message.source_mac = mac;
    message.router_lifetime_s = lifetime_s;
    message.preference = preference;
    neighbourhood.on_ndp(1, {mac, {{link_local_address(mac), kAllNodes}, message}});
  }
  /// Where the session sends to after a turn.
  IpAddress next_hop_after_turn(uint32_t conn) {
    state.transmit_queue.schedule(conn);
    transmission.transmit();
    return state.session(conn).next_hop;
  }
  uint32_t open_far() {
    uint32_t conn = UINT32_MAX;
    EXPECT_EQ(lifecycle.open(kContext, {}, {kFar6, 80}, 0, conn), channel::EndStatus::kOk);
    return conn;
  }
  void pass(Nanos span) {
    const Nanos end = state.now + span;
    while (state.neighbours.next_deadline() <= end) {
      state.now = later(state.now, state.neighbours.next_deadline());
      neighbourhood.run_timers();
      second_link.advance(state.now);
    }
    state.now = end;
  }
  /// The first router, which was used, answers nothing.
  void lose_first() {
    pass(link::kFirstProbeDelay + link::kRetransmitTime * (2 * link::kSolicitsMax));
  }

  io::sim::Link second_link{{}};
};

TEST_F(LearnedRouters, ASessionLeavesTheOneThatDoesNotAnswer) {
  const uint32_t conn = open_far();
  EXPECT_EQ(transmission.transmit(), 1u);
  ASSERT_EQ(state.session(conn).next_hop, link_local_address(kFirstMac));
  lose_first();
  state.transmit_queue.schedule(conn);
  transmission.transmit();
  EXPECT_EQ(state.session(conn).next_hop, link_local_address(kSecondMac));
  EXPECT_TRUE(state.engine.is_open(conn));
}

// RFC 4861 6.3.5. The route does not change where another router was better before.
TEST_F(LearnedRouters, ASessionLeavesTheOneThatIsNoRouterAnyMore) {
  const uint32_t conn = open_far();
  ASSERT_EQ(next_hop_after_turn(conn), link_local_address(kFirstMac));
  advertise(kSecondMac, 9000, wire::RouterPreference::kHigh);
  EXPECT_EQ(next_hop_after_turn(conn), link_local_address(kFirstMac)) << "it is a router still";
  advertise(kFirstMac, 0);
  EXPECT_EQ(next_hop_after_turn(conn), link_local_address(kSecondMac));
}

TEST_F(LearnedRouters, ASessionKeepsTheLastOneUntilThereIsAnother) {
  const uint32_t conn = open_far();
  ASSERT_EQ(next_hop_after_turn(conn), link_local_address(kFirstMac));
  advertise(kSecondMac, 0);
  advertise(kFirstMac, 0);
  EXPECT_EQ(next_hop_after_turn(conn), link_local_address(kFirstMac));
  advertise(kSecondMac, 9000);
  EXPECT_EQ(next_hop_after_turn(conn), link_local_address(kSecondMac));
}

TEST_F(LearnedRouters, AnOpenGoesThroughTheOneThatMayAnswer) {
  state.neighbours.resolve(1, link_local_address(kFirstMac), state.now);
  lose_first();
  transmission.transmit();  // what neighbour discovery had to say
  const uint32_t conn = open_far();
  EXPECT_EQ(transmission.transmit(), 1u);
  EXPECT_EQ(state.session(conn).next_hop, link_local_address(kSecondMac));
}

/// The path drops packets of more than 576 bytes, and reports nothing.
class SilentPath : public ConnectedParts {
 protected:
  SilentPath() {
    peer_mss = 1000;
    conn = connect();
  }
  void transmit() {
    learn_peer();
    transmission.transmit();
    take_frames();
  }
  void send(uint32_t bytes) {
    EXPECT_TRUE(state.sends.try_append(state.session(conn).sends,
                                       {.region = kContext, .length = bytes, .offset = 0}));
    ++state.contexts[kContext].sends_under_way;
    lifecycle.apply(conn, state.engine.on_app_send(conn, bytes, state.now));
    transmit();
  }
  void acknowledge(uint32_t bytes) {
    ip::TcpOutput ack = segment(conn, 0, 0);
    ack.header.ack += bytes;
    receive(ip::tcp_frame(ack));
    transmit();
  }
  /// The retransmission timer expires so many times.
  void lose(uint32_t timeouts) {
    const uint32_t end = state.engine.info(conn).timeouts + timeouts;
    while (state.engine.info(conn).timeouts < end) {
      state.now = later(state.now, state.engine.next_deadline(conn));
      lifecycle.apply(conn, state.engine.on_timer(conn, state.now));
      transmit();
    }
  }
  uint32_t mss_of_new_session() {
    learn_peer();
    return state.engine.info(connect()).mss_bytes;
  }
};

// Each session found the black hole again, with five timeouts.
TEST_F(SilentPath, LaterSessionsToThePeerBeginWithSmallSegments) {
  send(6000);
  lose(3);
  acknowledge(536);
  EXPECT_FALSE(state.path_mtus.find(kPeer.address, state.now).has_value()) << "only suspected";
  lose(2);
  const auto path = state.path_mtus.find(kPeer.address, state.now);
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path->mtu_bytes, 576u);
  EXPECT_FALSE(state.path_mtus.find(IpAddress::v4(0x0a090003), state.now).has_value());
  EXPECT_EQ(mss_of_new_session(), 536u);
  state.now = path->noted_at + ip::kPathMtuLife;
  EXPECT_EQ(mss_of_new_session(), 1000u) << "the entry has ended";
}

TEST_F(SilentPath, WhatARouterReportedSinceIsKept) {
  send(6000);
  lose(3);
  acknowledge(536);
  lose(2);
  state.now += seconds(1);
  state.path_mtus.note(kPeer.address, 900, state.now);
  lose(1);
  EXPECT_EQ(state.path_mtus.find(kPeer.address, state.now)->mtu_bytes, 900u);
}

class FullPort : public WorkerParts {
 protected:
  FullPort() : WorkerParts({.frames_max = 1}) {
    attach();
    learn_peer();
    while (state.ports[0].session_room() > 0) {  // the wire, and what may wait for it
      io::PacketBuf* packet = output.alloc();
      LYRE_CHECK(packet != nullptr);
      packet->length = 60;
      state.ports[0].queue(packet);
    }
  }
};

/// Another port has room, and another client a session there.
class FullPortBesideAnother : public FullPort {
 protected:
  static constexpr uint32_t kOther = 1;

  FullPortBesideAnother() {
    neighbourhood.add_port({.io = &second_link.add_queue(0, memory, 1),
                            .addresses = {InterfaceAddress::of(kSecondOwn, 24)},
                            .mtu_bytes = 1500});
    neighbourhood.update_routes();
    learn(1, kSecondPeer.address, kSecondOwn);
    attach(kOther);
  }
  static inline const IpAddress kSecondOwn = IpAddress::v4(0x0a0a0001);
  static inline const Endpoint kSecondPeer{IpAddress::v4(0x0a0a0002), 80};

  io::sim::Link second_link{{}};
};

// A client's turns come in a row: a round of all sessions is more than that many turns.
TEST_F(FullPortBesideAnother, DelaysOnlyItsOwnSessions) {
  for (int i = 0; i < 3; ++i) open();
  uint32_t conn = UINT32_MAX;
  ASSERT_EQ(lifecycle.open(kOther, {}, kSecondPeer, 0, conn), channel::EndStatus::kOk);
  size_t sent = 0;
  for (int polls = 0; polls < 100 && transmission.has_work(); ++polls) {
    sent += transmission.transmit();
  }
  EXPECT_EQ(sent, 1u) << "without waiting for the deadline";
  EXPECT_FALSE(transmission.has_work());
  EXPECT_NE(transmission.next_deadline(), kNever);
}

TEST_F(FullPort, SessionsWhosePortTakesNothingAreTriedAgainByDeadline) {
  open();
  EXPECT_EQ(transmission.transmit(), 0u);
  EXPECT_FALSE(transmission.has_work()) << "not before the deadline";
  EXPECT_EQ(transmission.next_deadline(), state.now + kTransmitRetryFirst);
  state.now = transmission.next_deadline();
  EXPECT_EQ(transmission.transmit(), 0u);
  EXPECT_GT(transmission.next_deadline() - state.now, kTransmitRetryFirst) << "then later";
}

// They waited for a session to send: the worker slept meanwhile.
TEST_F(FullPort, PacketsThatWaitWithoutASessionAreOfferedAgainByDeadline) {
  EXPECT_EQ(transmission.transmit(), 0u);
  EXPECT_FALSE(transmission.has_work()) << "not before the deadline";
  EXPECT_EQ(transmission.next_deadline(), state.now + kTransmitRetryFirst);
  for (size_t frames = 0; frames <= kTxBurstPackets; ++frames) take_frames();
  ASSERT_TRUE(state.ports[0].waiting().empty());
  transmission.transmit();
  EXPECT_EQ(transmission.next_deadline(), kNever);
}

/// Takes every packet, and keeps it while its ring has no room.
class FullRing final : public io::PacketIo {
 public:
  explicit FullRing(io::PacketIo& wire) : wire_(wire) {}

  size_t rx_burst(std::span<io::PacketBuf*>) override { return 0; }
  size_t tx_burst(std::span<io::PacketBuf* const> in) override {
    kept_.insert(kept_.end(), in.begin(), in.end());
    if (has_room) kept_.erase(kept_.begin(), kept_.begin() + wire_.tx_burst(kept_));
    return in.size();
  }
  bool has_unsent() const override { return !kept_.empty(); }
  void reclaim() override { wire_.reclaim(); }
  size_t tx_held() const override { return kept_.size() + wire_.tx_held(); }
  const io::IoCapabilities& capabilities() const override { return wire_.capabilities(); }
  io::IoCounters counters() const override { return wire_.counters(); }
  bool is_link_up() const override { return wire_.is_link_up(); }
  int wait_fd() const override { return -1; }

  bool has_room = false;

 private:
  io::PacketIo& wire_;
  std::vector<io::PacketBuf*> kept_;
};

class FullRingTest : public WorkerParts {
 protected:
  FullRingTest() {
    neighbourhood.add_port({.io = &ring,
                            .addresses = {InterfaceAddress::of(IpAddress::v4(0x0a0a0001), 24)},
                            .mtu_bytes = 1500});
  }

  io::sim::Link second_link{{}};
  FullRing ring{second_link.add_queue(0, memory, 1)};
};

// The tail of a transfer waited for its retransmission timer.
TEST_F(FullRingTest, WhatItRefusedIsOfferedAgainByDeadline) {
  io::PacketBuf* packet = output.alloc();
  ASSERT_NE(packet, nullptr);
  packet->length = 60;
  state.ports[1].queue(packet);
  EXPECT_EQ(transmission.transmit(), 1u) << "the port took it";
  EXPECT_FALSE(transmission.has_work());
  EXPECT_EQ(transmission.next_deadline(), state.now + kTransmitRetryFirst);
  for (int retries = 0; retries < 20; ++retries) {
    state.now = transmission.next_deadline();
    EXPECT_EQ(transmission.transmit(), 0u);
    EXPECT_GT(transmission.next_deadline(), state.now);
    EXPECT_LE(transmission.next_deadline(), state.now + kTransmitRetryLongest);
  }
  ring.has_room = true;
  state.now = transmission.next_deadline();
  transmission.transmit();
  EXPECT_FALSE(ring.has_unsent());
  EXPECT_EQ(transmission.next_deadline(), kNever);
}

}  // namespace
}  // namespace lyre::worker
