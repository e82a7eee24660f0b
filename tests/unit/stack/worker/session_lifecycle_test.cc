#include "stack/worker/session_lifecycle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "stack/io/rss_spread.h"
#include "stack/link/neighbour_cache.h"
#include "stack/wire/bytes.h"
#include "stack/wire/ethernet.h"
#include "tests/support/silent_queue.h"
#include "tests/unit/stack/worker/connected_parts.h"
#include "tests/unit/stack/worker/worker_parts.h"

namespace lyre::worker {
namespace {

using channel::EndStatus;

class SessionLifecycleTest : public WorkerParts {
 protected:
  SessionLifecycleTest() { attach(); }
  std::optional<EndStatus> try_open(const Endpoint& local, const Endpoint& remote) {
    uint32_t conn = UINT32_MAX;
    return lifecycle.open(kContext, local, remote, 7, conn);
  }
};

TEST_F(SessionLifecycleTest, AnOpenedSessionBelongsToItsClientAndIsScheduled) {
  const uint32_t conn = open();
  EXPECT_EQ(state.session(conn).context, kContext);
  EXPECT_EQ(state.contexts[kContext].sessions.size(), 1u);
  EXPECT_FALSE(state.transmit_queue.empty());
  EXPECT_EQ(state.find_connection(state.engine.tuple(conn)), conn);
}

TEST_F(SessionLifecycleTest, SaysWhyASessionCannotBeOpened) {
  EXPECT_EQ(try_open({IpAddress::v4(0x01020304), 0}, kPeer), EndStatus::kAddressUnknown);
  EXPECT_EQ(try_open({}, {IpAddress::v4(0xc0000201), 80}), EndStatus::kNoRoute);
  EXPECT_EQ(try_open({}, {kPeer.address, 0}), EndStatus::kNoRoute);
  EXPECT_EQ(try_open({{}, 1234}, kPeer), EndStatus::kOk);
  EXPECT_EQ(try_open({{}, 1234}, kPeer), EndStatus::kAddressInUse);
}

TEST_F(SessionLifecycleTest, GenerationsDiffer) {
  const uint32_t first = open();
  const channel::SessionName name = state.name_of(first);
  lifecycle.forget_context(first);
  lifecycle.abort(first, EndStatus::kAborted);
  ASSERT_FALSE(state.engine.is_open(first));
  uint32_t second = UINT32_MAX;
  do {
    second = open();
  } while (second != first && !lifecycle.is_full());
  ASSERT_EQ(second, first);
  EXPECT_FALSE(state.is_same_session(name.index, name.generation));
}

// A session with the generation 0 refused each upgrade while it lived.
TEST_F(SessionLifecycleTest, GenerationsThatWrapLeaveZeroOut) {
  lifecycle.restore_generations(UINT32_MAX - 1);
  EXPECT_EQ(state.session(open()).generation, UINT32_MAX);
  EXPECT_EQ(state.session(open()).generation, 1u);
  EXPECT_EQ(lifecycle.generations(), 1u);
}

TEST_F(SessionLifecycleTest, PortsOfOpensAreInTheConfiguredRangeAndFree) {
  const auto port = lifecycle.choose_port(kOwn, kPeer);
  ASSERT_TRUE(port.has_value());
  EXPECT_GE(*port, state.config.ephemeral_port_first);
  EXPECT_LE(*port, state.config.ephemeral_port_last);
}

TEST_F(SessionLifecycleTest, AnOpenTriesSoManyPorts) {  // RFC 6056 3.3.2
  state.listeners = Listeners(1u << 16);
  const auto use_all_but_first = [this](uint16_t count) {
    for (uint32_t port = state.config.ephemeral_port_first + 1u;
         port < uint32_t{state.config.ephemeral_port_first} + count; ++port) {
      state.listeners.add({.local = {{}, static_cast<uint16_t>(port)}});
    }
    state.config.ephemeral_port_last =
        static_cast<uint16_t>(state.config.ephemeral_port_first + count - 1);
  };
  use_all_but_first(kPortsTriedMax);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(lifecycle.choose_port(kOwn, kPeer), state.config.ephemeral_port_first) << "all tried";
  }
  state.listeners = Listeners(1u << 16);
  use_all_but_first(100 * kPortsTriedMax);
  EXPECT_EQ(lifecycle.choose_port(kOwn, kPeer), std::nullopt);
  EXPECT_EQ(try_open({}, kPeer), EndStatus::kAddressInUse);
}

/// A queue of a port that only tells how it spreads what it receives.
class SpreadingQueue final : public test::SilentQueue {
 public:
  explicit SpreadingQueue(io::RssSpread spread) : spread_(std::move(spread)) {}
  std::optional<uint32_t> receive_queue_of(const FourTuple& tuple) const override {
    return spread_.queue_of(tuple);
  }

 private:
  io::RssSpread spread_;
};

io::RssSpread spread_over(std::vector<uint16_t> queues) {
  io::RssSpread spread{.key = {}, .queues = std::move(queues), .hashes_ipv4 = true};
  for (uint8_t i = 0; i < 40; ++i) spread.key.push_back(static_cast<uint8_t>(i * 37 + 11));
  return spread;
}

TEST_F(SessionLifecycleTest, PacketsOfAnOpenedSessionComeBackToItsWorker) {
  state.config.worker_count = 4;
  const io::RssSpread spread = spread_over({0, 1, 2, 3, 0, 1, 2, 3});
  SpreadingQueue queue(spread);
  const Port through(queue, 1500);
  for (uint32_t worker = 0; worker < 4; ++worker) {
    state.config.index = worker;
    std::set<uint16_t> ports;
    for (int i = 0; i < 50; ++i) {
      const auto port = lifecycle.choose_port(kOwn, kPeer, &through);
      ASSERT_TRUE(port.has_value());
      EXPECT_EQ(spread.queue_of({{kOwn, *port}, kPeer}), worker);
      ports.insert(*port);
    }
    EXPECT_GT(ports.size(), 10u) << "RFC 6056: they cannot be guessed, and the fabric spreads them";
  }
}

TEST_F(SessionLifecycleTest, AnOpenNeedsNoPortWhosePacketsComeBackHere) {
  state.config.worker_count = 2;
  SpreadingQueue queue(spread_over({1, 1, 1, 1}));
  const Port through(queue, 1500);
  EXPECT_TRUE(lifecycle.choose_port(kOwn, kPeer, &through).has_value());
}

// The client was told that no connection was left.
TEST_F(SessionLifecycleTest, AnOpenTakesAPortWhoseClaimHasRoom) {
  InterWorkerRings rings(2);
  state.router = ConnectionRouter(
      {.index = 0, .worker_count = 2, .rings = &rings, .claims_max = 8, .key = {1, 2}});
  FourTuple there{{kOwn, state.config.ephemeral_port_first}, kPeer};
  while (state.router.knows_claims(there)) ++there.local.port;
  while (state.router.can_claim(there)) ASSERT_TRUE(state.router.claim(there));
  SpreadingQueue queue(spread_over({0, 0, 0, 0}));
  const Port through(queue, 1500);
  for (int i = 0; i < 50; ++i) {
    const auto port = lifecycle.choose_port(kOwn, kPeer, &through);
    ASSERT_TRUE(port.has_value());
    EXPECT_TRUE(state.router.can_claim({{kOwn, *port}, kPeer}));
  }
  state.config.ephemeral_port_first = state.config.ephemeral_port_last = there.local.port;
  EXPECT_EQ(lifecycle.choose_port(kOwn, kPeer, &through), there.local.port) << "the only one";
  EXPECT_EQ(try_open({}, kPeer), std::nullopt) << "not now";
  EXPECT_EQ(state.engine.connection_count(), 0u);
}

TEST_F(SessionLifecycleTest, WithoutAPlaceThatMayGiveWayAnOpenFails) {
  for (uint32_t i = 0; i < kConnectionsMax; ++i) open();
  EXPECT_TRUE(lifecycle.is_full());
  EXPECT_FALSE(lifecycle.can_make_room());
  EXPECT_EQ(try_open({}, kPeer), EndStatus::kNoResources);
}

TEST_F(SessionLifecycleTest, TheMssFitsThePortsPackets) {
  const auto route = state.routes.lookup(kPeer.address);
  ASSERT_TRUE(route.has_value());
  const tcp::ConnectionConfig config = lifecycle.connection_config(*route);
  EXPECT_EQ(config.mss_bytes, 1500 - 40);
  EXPECT_EQ(config.slot_bytes, memory.rx_slot_bytes());
}

TEST_F(SessionLifecycleTest, AnAbortedSessionStaysUntilItsClientKnows) {
  const uint32_t conn = open();
  lifecycle.abort(conn, EndStatus::kAborted);
  EXPECT_TRUE(state.engine.is_open(conn));
  EXPECT_TRUE(state.notifier.has_untold() || !state.contexts[kContext].dirty.empty());
  lifecycle.forget_context(conn);
  lifecycle.release_if_done(conn);
  EXPECT_FALSE(state.engine.is_open(conn));
  EXPECT_TRUE(state.contexts[kContext].sessions.empty());
}

TEST_F(SessionLifecycleTest, AReleasedSessionLeavesNoTrace) {
  const uint32_t conn = open();
  const FourTuple tuple = state.engine.tuple(conn);
  lifecycle.forget_context(conn);
  lifecycle.end_silently(conn);
  EXPECT_FALSE(state.engine.is_open(conn));
  EXPECT_EQ(state.find_connection(tuple), FlowTable::kNone);
  EXPECT_TRUE(state.transmit_queue.empty());
}

/// The address of the peer has moved to another machine, and nobody was told.
class PeerWithAnotherMac : public ConnectedParts {
 protected:
  static constexpr MacAddress kNewMac{{2, 0, 0, 0, 0, 10}};

  /// Makes turns for so long. Returns the frames that left.
  std::vector<Frame> pass(Nanos span) {
    std::vector<Frame> sent;
    for (const Nanos end = state.now + span; state.now < end;) {
      state.now += millis(5);
      lifecycle.run_timers();
      neighbourhood.run_timers();
      transmission.transmit();
      for (Frame& frame : take_frames()) sent.push_back(std::move(frame));
    }
    return sent;
  }
  static MacAddress destination_of(const Frame& frame) {
    MacAddress mac;
    std::copy_n(frame.begin(), mac.bytes.size(), mac.bytes.begin());
    return mac;
  }
  static bool asks_for_peer(const Frame& frame) {
    const auto ethernet_type = static_cast<uint16_t>(frame[12] << 8 | frame[13]);
    const uint8_t* target = frame.data() + wire::kEthernetHeaderBytes + 24;
    return ethernet_type == wire::kEtherTypeArp && wire::read_be32(target) == kPeer.address.as_v4();
  }
  /// Makes turns for so long. Returns where the requests for the peer's MAC went.
  std::vector<MacAddress> asked_while(Nanos span) {
    std::vector<MacAddress> asked;
    for (const Frame& frame : pass(span)) {
      if (asks_for_peer(frame)) asked.push_back(destination_of(frame));
    }
    return asked;
  }
};

// It was asked for when its entry became stale, after up to 50 s. Sessions gave up after 20 s.
TEST_F(PeerWithAnotherMac, IsFoundBecauseItAcknowledgesNothing) {
  lifecycle.apply(conn, state.engine.on_app_shutdown(conn, state.now));
  std::vector<MacAddress> asked;
  while (state.now < seconds(1) + link::kReachableTime / 2 &&
         (asked.empty() || asked.back() != kMacBroadcast)) {
    for (const MacAddress& mac : asked_while(millis(5))) asked.push_back(mac);
  }
  ASSERT_EQ(asked.size(), size_t{link::kSolicitsMax} + 1) << "before its entry is stale";
  EXPECT_EQ(asked.front(), kPeerMac);
  EXPECT_EQ(asked.back(), kMacBroadcast);
  neighbourhood.on_arp(0, {.operation = wire::ArpOperation::kReply,
                           .sender_mac = kNewMac,
                           .sender_ip = kPeer.address,
                           .target_mac = state.ports[0].mac(),
                           .target_ip = kOwn});
  const std::vector<Frame> sent = pass(seconds(5));
  EXPECT_TRUE(std::any_of(sent.begin(), sent.end(), [](const Frame& frame) {
    return destination_of(frame) == kNewMac && !asks_for_peer(frame);
  }));
  EXPECT_EQ(state.engine.state(conn), tcp::State::kFinWait1);
}

// A session that only receives has no timeouts.
TEST_F(PeerWithAnotherMac, IsFoundBecauseItRepeatsItsText) {
  pass(link::kRetransmitTime);  // its MAC was confirmed just now
  receive_text(0, 100);
  receive_text(0, 100);
  EXPECT_TRUE(asked_while(millis(100)).empty()) << "once: it may be a probe of the tail";
  receive_text(0, 100);
  receive_text(0, 100);
  const std::vector<MacAddress> asked =
      asked_while(link::kRetransmitTime * link::kSolicitsMax + millis(100));
  ASSERT_EQ(asked.size(), size_t{link::kSolicitsMax} + 1);
  EXPECT_EQ(asked.front(), kPeerMac);
  EXPECT_EQ(asked.back(), kMacBroadcast);
}

TEST_F(PeerWithAnotherMac, IsNotDoubtedWhereNewTextComesBetweenRepeats) {
  pass(link::kRetransmitTime);
  for (const uint32_t offset : {0u, 0u, 100u, 0u}) receive_text(offset, 100);
  EXPECT_TRUE(asked_while(millis(100)).empty());
  EXPECT_EQ(drops(Drop::kTcpDuplicate), 2u);
}

/// A peer that connects to a listener.
class PeerThatConnects : public ConnectedParts {
 protected:
  PeerThatConnects() {
    state.listeners.add({.local = tuple.local, .context = kContext, .backlog = 2});
    receive_bare(wire::TcpFlags::kSyn, SeqNum(kPeerIss));
    transmission.transmit();
    accepting = state.find_connection(tuple);
    LYRE_CHECK(accepting != FlowTable::kNone);
  }
  void receive_bare(uint8_t flags, SeqNum seq, SeqNum ack = {}) {
    ip::TcpOutput out;
    out.frame = {.source = kPeerMac, .destination = state.ports[0].mac()};
    out.tuple = {.local = tuple.remote, .remote = tuple.local};
    out.header.seq = seq;
    out.header.ack = ack;
    out.header.flags.set(flags);
    out.header.window = 60'000;
    receive(ip::tcp_frame(out));
  }

  const FourTuple tuple{{kOwn, 5000}, {kPeer.address, 1024}};
  uint32_t accepting = FlowTable::kNone;
};

// Each port that a scan found open counted as a connection that was reset.
TEST_F(PeerThatConnects, AResetOfAHandshakeIsNoResetOfAConnection) {
  receive_bare(wire::TcpFlags::kRst, SeqNum(kPeerIss + 1));
  EXPECT_EQ(state.find_connection(tuple), FlowTable::kNone);
  EXPECT_EQ(stats.tcp_resets_in.get(), 0u);
}

TEST_F(PeerThatConnects, AResetOfAnAcceptedConnectionCounts) {
  receive_bare(wire::TcpFlags::kAck, SeqNum(kPeerIss + 1), state.engine.info(accepting).send_next);
  EXPECT_EQ(stats.accepts.get(), 1u);
  receive_bare(wire::TcpFlags::kRst, SeqNum(kPeerIss + 1));
  EXPECT_EQ(state.engine.state(accepting), tcp::State::kClosed);
  EXPECT_EQ(stats.tcp_resets_in.get(), 1u);
}

}  // namespace
}  // namespace lyre::worker
