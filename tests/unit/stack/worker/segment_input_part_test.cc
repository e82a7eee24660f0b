#include <gtest/gtest.h>

#include "stack/worker/segment_input.h"
#include "tests/unit/stack/worker/connected_parts.h"

// SegmentInput by itself; segment_input_test.cc has whole transfers.
namespace lyre::worker {
namespace {

constexpr uint32_t kText = 600;

class SegmentInputPartTest : public ConnectedParts {
 protected:
  explicit SegmentInputPartTest(const io::sim::LinkOptions& options = {})
      : ConnectedParts(options) {}
  ~SegmentInputPartTest() override { memory.release(taken_); }

  /// Receives it, and leaves it where it waits for what may continue it.
  void arrive(uint32_t offset, uint32_t bytes, uint8_t flags = 0) {
    ip::TcpOutput out = segment(conn, offset, bytes);
    out.header.flags.set(flags);
    input.on_packet(packet_of(ip::tcp_frame(out)), ip::Origin::kWire, Redirect::kNo);
  }
  void take_slots_until(uint32_t slots_free) {
    while (memory.rx_slots_free() > slots_free) taken_.push_back(memory.alloc_rx());
  }
  uint32_t held() const { return state.accounts.held_by(kContext); }

  const uint64_t segments_before = stats.tcp_segments_in.get();

 private:
  std::vector<io::PacketBuf*> taken_;
};

TEST_F(SegmentInputPartTest, SegmentsThatFollowEachOtherReachTheConnectionTogether) {
  arrive(0, kText);
  arrive(kText, kText);
  EXPECT_EQ(stats.tcp_segments_in.get(), segments_before);
  segment_input.deliver_merged();
  EXPECT_EQ(stats.tcp_segments_in.get(), segments_before + 2);
  EXPECT_EQ(held(), 2u);
}

TEST_F(SegmentInputPartTest, WhatDoesNotContinueAMergedSegmentComesAfterIt) {
  arrive(0, kText);
  arrive(kText, 0, wire::TcpFlags::kFin);
  EXPECT_EQ(stats.tcp_segments_in.get(), segments_before + 2);
  EXPECT_EQ(state.engine.state(conn), tcp::State::kCloseWait);
  EXPECT_EQ(held(), 1u);
}

/// The place of an orphan was needed for another connection, which may have its index by now.
TEST_F(SegmentInputPartTest, WhatWaitsForAConnectionThatEndedIsReleased) {
  const uint32_t slots_free = memory.rx_slots_free();
  arrive(0, kText);
  arrive(kText, kText);
  lifecycle.forget_context(conn);
  lifecycle.end_silently(conn);
  segment_input.deliver_merged();
  EXPECT_EQ(drops(Drop::kTcpNoConnection), 2u) << "each packet counts";
  EXPECT_EQ(memory.rx_slots_free(), slots_free);
  EXPECT_EQ(stats.tcp_segments_in.get(), segments_before);
}

// It counted as one dropped packet.
TEST_F(SegmentInputPartTest, EachPacketOfAMergedSegmentThatIsRefusedCounts) {
  const uint32_t slots_free = memory.rx_slots_free();
  lifecycle.close_by_client(conn);
  arrive(0, kText);
  arrive(kText, kText);
  arrive(2 * kText, kText);
  segment_input.deliver_merged();
  EXPECT_EQ(stats.tcp_segments_in.get(), segments_before + 3);
  EXPECT_EQ(drops(Drop::kTcpAfterClose), 3u);
  EXPECT_EQ(memory.rx_slots_free(), slots_free);
}

TEST_F(SegmentInputPartTest, ASegmentThatItsPeerPushesEndsTheMergedOne) {
  arrive(0, kText);
  arrive(kText, kText, wire::TcpFlags::kPsh);
  EXPECT_EQ(stats.tcp_segments_in.get(), segments_before + 2);
}

TEST_F(SegmentInputPartTest, AClientBeyondItsShareGetsNothingThatCannotBeReadYet) {
  state.accounts.add(kContext, 10);
  take_slots_until(3);
  arrive(3 * kText, kText);
  segment_input.deliver_merged();
  EXPECT_EQ(drops(Drop::kRxPoolLow), 1u);
  EXPECT_EQ(held(), 10u);
  state.accounts.remove(kContext, 10);
}

TEST_F(SegmentInputPartTest, AClientBeyondItsShareGetsTheBytesForWhichItsReaderWaits) {
  // More than its share of two for each slot free above the reserve, not more than three.
  state.accounts.add(kContext, 6);
  take_slots_until(4);
  arrive(0, kText);
  segment_input.deliver_merged();
  EXPECT_EQ(drops(Drop::kRxPoolLow), 0u);
  EXPECT_TRUE(state.session(conn).has_readable);
  state.accounts.remove(kContext, 6);
}

/// A client has opened a connection from an explicit port, and its SYN has left.
class SegmentInputAtAnOpen : public SegmentInputPartTest {
 protected:
  static constexpr uint32_t kOther = 1;  ///< the client that listens
  static constexpr uint32_t kOtherUid = 1;
  static constexpr uint64_t kCookie = 7;

  SegmentInputAtAnOpen() {
    EXPECT_EQ(lifecycle.open(kContext, tuple.local, tuple.remote, kCookie, opening),
              channel::EndStatus::kOk);
    transmission.transmit();
    take_frames();
  }
  void listen(uint32_t uid) {
    attach(kOther, uid);
    state.listeners.add({.local = {{}, tuple.local.port}, .context = kOther, .backlog = 1});
  }
  /// The peer's program connects from where the open goes to.
  void receive_syn() {
    ip::TcpOutput syn = segment(opening, 0, 0);
    syn.header.ack = SeqNum(0);
    syn.header.flags.bits = wire::TcpFlags::kSyn;
    receive(ip::tcp_frame(syn));
  }
  /// Why the open failed; kOk: nothing was said.
  channel::EndStatus told() {
    state.notifier.ring_doorbells();
    channel::EndStatus status = channel::EndStatus::kOk;
    while (const auto next = next_completion()) {
      if (next->event == channel::Event::kConnectFailed && next->body.opened.cookie == kCookie)
        status = next->exact;
    }
    return status;
  }

  const FourTuple tuple{{kOwn, 5000}, kPeer};
  uint32_t opening = UINT32_MAX;
};

// Its client took the connection, which was meant for the listener's.
TEST_F(SegmentInputAtAnOpen, ASynForTheListenerOfAnotherUserIsTheListeners) {
  listen(kOtherUid);
  receive_syn();
  EXPECT_EQ(told(), channel::EndStatus::kAddressInUse);
  EXPECT_EQ(state.contexts[kContext].sessions.size(), 1u);
  const uint32_t accepting = state.find_connection(tuple);
  ASSERT_NE(accepting, FlowTable::kNone);
  EXPECT_TRUE(state.session(accepting).is_passive);
  EXPECT_EQ(state.engine.state(accepting), tcp::State::kSynReceived);
}

TEST_F(SegmentInputAtAnOpen, ASynForAListenerOfTheSameUserCompletesIt) {
  listen(0);
  receive_syn();
  EXPECT_EQ(told(), channel::EndStatus::kOk);
  EXPECT_EQ(state.find_connection(tuple), opening);
  EXPECT_EQ(state.engine.state(opening), tcp::State::kSynReceived);
}

TEST_F(SegmentInputAtAnOpen, ASynIsResetWhereTheDomainMayNotListen) {
  DomainRules rules;
  rules.may_listen = false;
  state.contexts[kContext].attached.domain = &rules;
  receive_syn();
  EXPECT_EQ(told(), channel::EndStatus::kRefused);
  EXPECT_EQ(state.find_connection(tuple), FlowTable::kNone);
  EXPECT_EQ(drops(Drop::kTcpNoConnection), 1u);
  EXPECT_EQ(stats.tcp_resets_out.get(), 1u);
}

// The 4-tuple is in use until its client was told, and the peer repeats its SYN.
TEST_F(SegmentInputAtAnOpen, WithoutRoomToSayWhyItFailsAllTheSame) {
  listen(kOtherUid);
  channel::CompletionProducer& ring = state.contexts[kContext].completions;
  while (ring.room() > 0) ring.push({});
  receive_syn();
  EXPECT_EQ(state.find_connection(tuple), opening);
  EXPECT_EQ(state.engine.state(opening), tcp::State::kClosed);
  EXPECT_EQ(drops(Drop::kTcpNoConnection), 1u);
  EXPECT_EQ(stats.tcp_resets_out.get(), 0u);
}

/// Another worker, to which packets may be sent.
class SegmentInputBesideAnother : public SegmentInputPartTest {
 protected:
  SegmentInputBesideAnother() {
    state.router = ConnectionRouter(
        {.index = 0, .worker_count = 2, .rings = &rings, .claims_max = 8, .key = {1, 2}});
  }
  /// Of a connection that is not here, and whose home is the other worker.
  FourTuple elsewhere() {
    FourTuple tuple{{kOwn, 5000}, {kPeer.address, 1024}};
    while (state.router.redirect(nullptr, tuple) != ConnectionRouter::Redirected::kAway) {
      ++tuple.remote.port;
    }
    WorkerMessage message;
    EXPECT_TRUE(rings.ring(0, 1).try_take(message));
    return tuple;
  }

  /// Opens such a connection here: its SYN has left, and its home is asked for the 4-tuple.
  uint32_t open_elsewhere() {
    const FourTuple tuple = elsewhere();
    uint32_t opening = UINT32_MAX;
    EXPECT_EQ(lifecycle.open(kContext, tuple.local, tuple.remote, 0, opening),
              channel::EndStatus::kOk);
    transmission.transmit();
    return opening;
  }

  InterWorkerRings rings{2};
};

TEST_F(SegmentInputBesideAnother, ASegmentOfNoConnectionHereIsSentToItsHome) {
  const FourTuple tuple = elsewhere();
  io::PacketBuf* packet = memory.alloc_rx();
  EXPECT_EQ(segment_input.redirect(packet, tuple), PacketFate::kKept);
  EXPECT_EQ(stats.redirected_out.get(), 1u);
  WorkerMessage message;
  ASSERT_TRUE(rings.ring(0, 1).try_take(message));
  EXPECT_EQ(message.kind, WorkerMessage::Kind::kFindOwner);
  EXPECT_EQ(message.packet, packet);
  memory.release({&packet, 1});
}

// The worker that has the connection moves it for a SYN-ACK only, and checks what that
// acknowledges.
TEST_F(SegmentInputBesideAnother, ASynAckIsSentWithWhatItAcknowledges) {
  ip::TcpOutput answer = segment(conn, 0, 0);
  const FourTuple tuple = elsewhere();
  answer.tuple = {.local = tuple.remote, .remote = tuple.local};
  for (const bool is_syn : {true, false}) {
    answer.header.flags.bits = wire::TcpFlags::kAck;
    if (is_syn) answer.header.flags.set(wire::TcpFlags::kSyn);
    io::PacketBuf* packet = packet_of(ip::tcp_frame(answer));
    input.on_packet(packet, ip::Origin::kWire, Redirect::kYes);
    WorkerMessage message;
    ASSERT_TRUE(rings.ring(0, 1).try_take(message));
    EXPECT_EQ(message.syn_acked, is_syn ? std::optional(answer.header.ack) : std::nullopt);
    memory.release({&packet, 1});
  }
}

// A client could reset the connections of others: it opens their 4-tuple at another worker.
TEST_F(SegmentInputBesideAnother, WhatDoesNotAnswerAnOpenMayBeAnotherWorkers) {
  const uint32_t opening = open_elsewhere();
  take_frames();
  WorkerMessage message;
  ASSERT_TRUE(rings.ring(0, 1).try_take(message));
  EXPECT_EQ(message.kind, WorkerMessage::Kind::kClaim);
  ip::TcpOutput answer = segment(opening, 0, 0);
  answer.header.ack = state.engine.info(opening).send_next + 1;
  answer.header.flags.set(wire::TcpFlags::kSyn);
  io::PacketBuf* packet = packet_of(ip::tcp_frame(answer));
  input.on_packet(packet, ip::Origin::kWire, Redirect::kYes);
  ASSERT_TRUE(rings.ring(0, 1).try_take(message));
  EXPECT_EQ(message.kind, WorkerMessage::Kind::kFindOwner);
  EXPECT_FALSE(message.syn_acked.has_value()) << "no open of the other worker may move here";
  EXPECT_EQ(stats.tcp_resets_out.get(), 0u);
  // No worker has such a connection: the packet comes back.
  inter_worker.on_unclaimed_packet(packet);
  EXPECT_EQ(drops(Drop::kTcpBadAck), 1u);
  EXPECT_EQ(state.engine.state(opening), tcp::State::kSynSent);
}

TEST_F(SegmentInputBesideAnother, TheAnswerToAnOpenIsNotRedirected) {
  const uint32_t opening = open_elsewhere();
  ip::TcpOutput answer = segment(opening, 0, 0);
  answer.header.ack = state.engine.info(opening).send_next;
  answer.header.flags.set(wire::TcpFlags::kSyn);
  input.on_packet(packet_of(ip::tcp_frame(answer)), ip::Origin::kWire, Redirect::kYes);
  EXPECT_EQ(state.engine.state(opening), tcp::State::kEstablished);
  EXPECT_EQ(stats.redirected_out.get(), 0u);
}

TEST_F(SegmentInputBesideAnother, WithoutRoomInTheRingItIsDroppedAndCounted) {
  const FourTuple tuple = elsewhere();
  while (rings.ring(0, 1).try_post({})) {
  }
  const uint32_t slots_free = memory.rx_slots_free();
  EXPECT_EQ(segment_input.redirect(memory.alloc_rx(), tuple), PacketFate::kKept);
  EXPECT_EQ(drops(Drop::kRedirectFull), 1u);
  EXPECT_EQ(memory.rx_slots_free(), slots_free);
}

/// A port that takes one packet at a time: the second one of a text waits.
class SlowPort : public SegmentInputPartTest {
 protected:
  static constexpr uint32_t kSegment = 536;

  SlowPort() : SegmentInputPartTest({.frames_max = 1}) {
    announcements.announce_all();
    LYRE_CHECK(next_completion().has_value());  // kConnected
    channel::Submission entry{.op = channel::Op::kSend, .session = state.name_of(conn)};
    entry.body.send.bytes = 2 * kSegment;
    submit(entry);
    LYRE_CHECK(submissions.take() == 1 && transmission.transmit() == 2);
    LYRE_CHECK(state.ports[0].waiting().size() == 1);
  }
  void acknowledge(uint32_t bytes) {
    ip::TcpOutput out = segment(conn, 0, 0);
    out.header.ack = out.header.ack + bytes;
    receive(ip::tcp_frame(out));
  }
};

/// Nobody can have received what waits, and the port will read it from the client's memory.
TEST_F(SlowPort, MemoryOfTextThatIsAcknowledgedBeforeItIsSentStaysThePorts) {
  acknowledge(2 * kSegment);
  announcements.announce_all();
  EXPECT_FALSE(next_completion().has_value());
  take_frames();
  take_frames();
  holds.end_turn();
  holds.advance();
  announcements.announce_all();
  const auto done = next_completion();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->event, channel::Event::kSendDone);
}

TEST_F(SlowPort, TextThatWaitsDelaysNothingThatWasSent) {
  acknowledge(kSegment);
  EXPECT_EQ(state.session(conn).fence, 0u);
}

}  // namespace
}  // namespace lyre::worker
