#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "stack/worker/handover_reader.h"
#include "stack/worker/handover_writer.h"
#include "stack/worker/inter_worker.h"
#include "tests/unit/stack/worker/connected_parts.h"

// InterWorker by itself; inter_worker_test.cc has a whole worker between others.
namespace lyre::worker {
namespace {

/// The first of two workers; packets come from the second one, whose memory is not this one's.
class InterWorkerPartTest : public ConnectedParts {
 protected:
  using Kind = WorkerMessage::Kind;

  InterWorkerPartTest() {
    state.router = ConnectionRouter(
        {.index = 0, .worker_count = 2, .rings = &rings, .claims_max = 8, .key = {1, 2}});
  }
  /// The packet that the second worker received.
  WorkerMessage redirected(const Frame& frame) {
    foreign_ = frame;
    foreign_packet_ = ip::received(foreign_);
    return {.kind = Kind::kDeliver, .receiver = 1, .packet = &foreign_packet_};
  }
  /// A SYN-ACK for the connection, or something else that comes with the same addresses.
  WorkerMessage answer_to(uint32_t opening, std::optional<SeqNum> syn_acked) {
    WorkerMessage message = redirected(ip::tcp_frame(segment(opening, 0, 0)));
    message.syn_acked = syn_acked;
    return message;
  }
  /// An open whose SYN has left.
  uint32_t open_and_send() {
    const uint32_t opening = open();
    transmission.transmit();
    return opening;
  }
  /// The same, in the slots of the second worker, each of which holds kSlotBytes of it.
  WorkerMessage redirected_in_slots(const Frame& frame) {
    rings.set_memory(1, foreign_memory);
    io::PacketBuf* first = chain_of(foreign_memory, frame);
    return {.kind = Kind::kDeliver, .receiver = 1, .packet = first};
  }
  static io::PacketBuf* chain_of(io::sim::Memory& memory, const Frame& frame) {
    io::PacketBuf* first = memory.alloc_rx();
    io::PacketBuf* last = first;
    for (size_t at = 0; at < frame.size(); at += kSlotBytes) {
      if (at > 0) {
        io::PacketBuf* next = memory.alloc_rx();
        last->next_slot = next->slot;
        last = next;
        ++first->rest_slots;
      }
      last->length = static_cast<uint32_t>(std::min(kSlotBytes, frame.size() - at));
      std::copy_n(frame.begin() + static_cast<ptrdiff_t>(at), last->length, last->data);
    }
    first->rest_bytes = static_cast<uint32_t>(frame.size()) - first->length;
    first->l4_checksum = io::ChecksumVerdict::kGood;  // as of all that a port merges
    return first;
  }
  Frame text_of(uint32_t receiving) {
    Frame text;
    while (const auto slice = announcements.take_received(receiving)) {
      text.insert(text.end(), slice->bytes.begin(), slice->bytes.end());
    }
    return text;
  }
  SeqNum next_of(uint32_t opening) const { return state.engine.info(opening).send_next; }
  /// The next message to the second worker, claims of connections apart.
  Kind next_message() {
    WorkerMessage message;
    while (rings.ring(0, 1).try_take(message)) {
      if (message.kind != Kind::kClaim && message.kind != Kind::kUnclaim) return message.kind;
    }
    return Kind::kNone;
  }
  WorkerMessage migration_of(const FourTuple& tuple, uint64_t generation = 0) {
    ip::TcpOutput answer = segment(conn, 0, 0);
    answer.tuple = {.local = tuple.remote, .remote = tuple.local};
    answer.header.flags.bits = wire::TcpFlags::kSyn | wire::TcpFlags::kAck;
    return {.kind = Kind::kMigrate,
            .receiver = 0,
            .packet = packet_of(ip::tcp_frame(answer)),
            .tuple = tuple,
            .body = WorkerMessage::Migration{.context = kContext,
                                             .context_generation = generation,
                                             .cookie = 77,
                                             .opened_at = state.now}};
  }
  void expect_told_of_refusal() {
    const auto told = next_completion();
    ASSERT_TRUE(told.has_value());
    EXPECT_EQ(told->event, channel::Event::kConnectFailed);
    EXPECT_EQ(told->status, channel::EndStatus::kNoResources);
    EXPECT_EQ(told->body.opened.cookie, 77u);
    EXPECT_EQ(told->body.opened.local_port, moving_tuple().local.port);
  }
  /// A connection moves here that the client may not have, while its ring has no room.
  void refuse_with_full_ring() {
    const DomainRules rules{.sessions_max = 1};  // the connection of the fixture
    announcements.announce_all();
    Context& client = state.contexts[kContext];
    while (client.completions.room() > 0) client.completions.push({});
    client.attached.domain = &rules;
    inter_worker.on_migrated_connection(migration_of(moving_tuple()));
    client.attached.domain = nullptr;
    announcements.announce_all();
  }
  void read_all() {
    while (next_completion()) {
    }
  }
  static FourTuple moving_tuple() { return {{kOwn, 40'000}, {kPeer.address, 90}}; }

  static constexpr size_t kSlotBytes = 600;
  InterWorkerRings rings{2};
  io::sim::Memory foreign_memory{{.rx_slots = 8}};

 private:
  Frame foreign_;
  io::PacketBuf foreign_packet_;
};

TEST_F(InterWorkerPartTest, ARedirectedPacketIsCopiedAndGivenBack) {
  const uint32_t slots_free = memory.rx_slots_free();
  inter_worker.on_redirected_packet(conn, redirected(ip::tcp_frame(segment(conn, 0, 600))));
  segment_input.deliver_merged();
  EXPECT_EQ(stats.redirected_in.get(), 1u);
  EXPECT_EQ(stats.copied_rx_bytes.get(), 14u + 20 + 20 + 600);
  EXPECT_EQ(memory.rx_slots_free(), slots_free - 1);
  EXPECT_TRUE(state.session(conn).has_readable);
  EXPECT_EQ(next_message(), Kind::kRelease);
}

TEST_F(InterWorkerPartTest, WithoutASlotForTheCopyThePacketIsDroppedAndGivenBack) {
  std::vector<io::PacketBuf*> taken;
  while (io::PacketBuf* packet = memory.alloc_rx()) taken.push_back(packet);
  inter_worker.on_redirected_packet(conn, redirected(ip::tcp_frame(segment(conn, 0, 600))));
  EXPECT_EQ(drops(Drop::kRxPoolLow), 1u);
  EXPECT_FALSE(state.session(conn).has_readable);
  EXPECT_EQ(next_message(), Kind::kRelease);
  memory.release(taken);
}

// They were dropped: a connection that stayed where it was opened received next to nothing.
TEST_F(InterWorkerPartTest, ARedirectedSuperPacketIsCopiedSlotBySlot) {
  constexpr uint32_t kBytes = 1'500;
  const uint32_t slots_free = memory.rx_slots_free();
  const Frame frame = ip::tcp_frame(segment(conn, 0, kBytes));
  inter_worker.on_redirected_packet(conn, redirected_in_slots(frame));
  EXPECT_EQ(stats.copied_rx_bytes.get(), frame.size());
  EXPECT_EQ(memory.rx_slots_free(), slots_free - 3);
  EXPECT_EQ(text_of(conn), Frame(frame.end() - kBytes, frame.end()));
  EXPECT_EQ(next_message(), Kind::kRelease);
}

TEST_F(InterWorkerPartTest, WithoutSlotsForAllOfASuperPacketItIsDroppedAndGivenBack) {
  std::vector<io::PacketBuf*> taken;
  while (memory.rx_slots_free() > 2) taken.push_back(memory.alloc_rx());
  inter_worker.on_redirected_packet(conn,
                                    redirected_in_slots(ip::tcp_frame(segment(conn, 0, 1'500))));
  EXPECT_EQ(drops(Drop::kRxPoolLow), 1u);
  EXPECT_EQ(memory.rx_slots_free(), 2u);
  EXPECT_FALSE(state.session(conn).has_readable);
  EXPECT_EQ(next_message(), Kind::kRelease);
  memory.release(taken);
}

TEST_F(InterWorkerPartTest, ASuperPacketThatComesBackFreesAllItsSlots) {
  const uint32_t slots_free = memory.rx_slots_free();
  inter_worker.on_returned_packet(chain_of(memory, Frame(1'500)));
  EXPECT_EQ(memory.rx_slots_free(), slots_free);
}

TEST_F(InterWorkerPartTest, AnOpenMovesToTheWorkerThatReceivedTheAnswer) {
  const uint32_t opening = open_and_send();
  inter_worker.on_redirected_packet(opening, answer_to(opening, next_of(opening)));
  EXPECT_EQ(next_message(), Kind::kMigrate);
  EXPECT_EQ(stats.handed_over.get(), 1u);
  EXPECT_FALSE(state.engine.is_open(opening));
  EXPECT_EQ(state.contexts[kContext].sessions.size(), 1u) << "the connection of the fixture";
}

// Who sends one does not know the sequence numbers, and may choose the worker that receives it.
TEST_F(InterWorkerPartTest, AnIcmpErrorMovesNoConnection) {
  const uint32_t opening = open_and_send();
  inter_worker.on_redirected_packet(opening, answer_to(opening, std::nullopt));
  EXPECT_EQ(stats.handed_over.get(), 0u);
  EXPECT_EQ(next_message(), Kind::kRelease);
}

TEST_F(InterWorkerPartTest, ASynAckOfAnotherOpenMovesNoConnection) {
  const uint32_t opening = open_and_send();
  inter_worker.on_redirected_packet(opening, answer_to(opening, next_of(opening) + 1));
  EXPECT_EQ(stats.handed_over.get(), 0u);
  EXPECT_EQ(next_message(), Kind::kRelease);
}

TEST_F(InterWorkerPartTest, AnOpenThatWasShutDownStays) {
  const uint32_t opening = open_and_send();
  state.session(opening).is_shut_down = true;
  inter_worker.on_redirected_packet(opening, answer_to(opening, next_of(opening)));
  EXPECT_EQ(stats.handed_over.get(), 0u);
  EXPECT_EQ(next_message(), Kind::kRelease);
}

// The detach counts the client's sessions when it begins.
TEST_F(InterWorkerPartTest, AnOpenOfAClientThatLeavesStays) {
  const uint32_t opening = open_and_send();
  state.contexts[kContext].state = Context::State::kDetaching;
  inter_worker.on_redirected_packet(opening, answer_to(opening, next_of(opening)));
  EXPECT_EQ(stats.handed_over.get(), 0u);
  EXPECT_EQ(state.contexts[kContext].sessions.size(), 2u);
  state.contexts[kContext].state = Context::State::kAttached;
}

// Its client was never told how the connect ended: that worker could not tell it.
TEST_F(InterWorkerPartTest, AnOpenStaysUntilEachWorkerKnowsItsClient) {
  state.config.worker_count = 2;
  const uint32_t opening = open_and_send();
  inter_worker.on_redirected_packet(opening, answer_to(opening, next_of(opening)));
  EXPECT_EQ(stats.handed_over.get(), 0u);
  EXPECT_EQ(next_message(), Kind::kRelease);
  ASSERT_TRUE(state.engine.is_open(opening));
  ++attached_workers;  // the second worker's kAttach
  inter_worker.on_redirected_packet(opening, answer_to(opening, next_of(opening)));
  EXPECT_EQ(stats.handed_over.get(), 1u);
  EXPECT_EQ(next_message(), Kind::kMigrate);
}

TEST_F(InterWorkerPartTest, AConnectionBeyondTheClientsShareFails) {
  const DomainRules rules{.sessions_max = 1};  // the connection of the fixture
  state.contexts[kContext].attached.domain = &rules;
  const FourTuple tuple = moving_tuple();
  inter_worker.on_migrated_connection(migration_of(tuple));
  EXPECT_EQ(state.find_connection(tuple), FlowTable::kNone);
  EXPECT_EQ(stats.connect_failures.get(), 1u);
  state.contexts[kContext].attached.domain = nullptr;
}

// The client was disconnected, although it had broken no rule.
TEST_F(InterWorkerPartTest, AFailureIsToldWhenTheClientsRingHasRoom) {
  refuse_with_full_ring();
  EXPECT_EQ(stats.clients_expelled.get(), 0u);
  EXPECT_EQ(stats.connect_failures.get(), 1u);
  EXPECT_TRUE(state.notifier.has_untold());
  read_all();
  announcements.announce_all();
  expect_told_of_refusal();
  EXPECT_FALSE(next_completion().has_value());
}

TEST_F(InterWorkerPartTest, AFailureThatWasNotToldEndsWithItsClient) {
  refuse_with_full_ring();
  EXPECT_EQ(state.notifier.failed_open_count(), 1u);
  contexts.detach({.kind = Command::Kind::kDetach, .context = kContext});
  EXPECT_EQ(state.notifier.failed_open_count(), 0u);
}

/// The parts of the worker that takes over.
class SuccessorParts : public WorkerParts {
 public:
  bool take_over(const Command& attach, const record::Writer& records) {
    HandoverReader reader(state, {lifecycle, contexts, regions, payload, replies, stats_writer});
    record::Reader in(records.bytes());
    return reader.take_over({&attach, 1}, in) && in.is_at_end();
  }
  void announce() { announcements.announce_all(); }

 private:
  void TestBody() override {}
};

TEST_F(InterWorkerPartTest, ASuccessorTellsOfAFailure) {
  refuse_with_full_ring();
  record::Writer records;
  HandoverWriter(state, state.engine, memory).write(lifecycle.generations(), records);
  SuccessorParts successor;
  ASSERT_TRUE(successor.take_over(state.contexts[kContext].attached, records));
  read_all();
  successor.announce();
  expect_told_of_refusal();
}

TEST_F(InterWorkerPartTest, AConnectionThatMovedHereBelongsToItsClient) {
  const FourTuple tuple = moving_tuple();
  inter_worker.on_migrated_connection(migration_of(tuple));
  const uint32_t moved = state.find_connection(tuple);
  ASSERT_NE(moved, FlowTable::kNone);
  EXPECT_EQ(state.session(moved).context, kContext);
  EXPECT_EQ(state.session(moved).cookie, 77u);
}

// It was empty: it was kept under the time of the move, and looked up by that of the open.
TEST_F(InterWorkerPartTest, AConnectionThatMovedHereHasATrace) {
  const FourTuple tuple = moving_tuple();
  WorkerMessage message = migration_of(tuple);
  std::get<WorkerMessage::Migration>(message.body).opened_at = state.now - millis(1);
  inter_worker.on_migrated_connection(message);
  const uint32_t moved = state.find_connection(tuple);
  ASSERT_NE(moved, FlowTable::kNone);
  std::array<channel::TraceEvent, channel::TraceRing::kEvents> events;
  ASSERT_GE(traces[moved].read(state.session(moved).opened_at.value, events), 1u);
  EXPECT_EQ(events[0].kind, channel::TraceKind::kOpened);
}

TEST_F(InterWorkerPartTest, AnOpenWhoseAddressesAnotherWorkerHasFails) {
  const uint32_t opening = open();
  inter_worker.on_claim_refused(state.engine.tuple(opening));
  announcements.announce_all();
  std::optional<channel::Completion> told;
  while (const auto next = next_completion()) {
    if (next->event == channel::Event::kConnectFailed) told = next;
  }
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->status, channel::EndStatus::kAddressInUse);
  EXPECT_FALSE(state.engine.is_open(opening));
}

TEST_F(InterWorkerPartTest, ALateRefusalEndsNoConnectionThatWasAccepted) {
  inter_worker.on_claim_refused(state.engine.tuple(conn));
  EXPECT_EQ(state.engine.state(conn), tcp::State::kEstablished);
}

TEST_F(InterWorkerPartTest, AConnectionOfAClientThatLeftIsNotOpened) {
  const FourTuple tuple = moving_tuple();
  const uint32_t slots_free = memory.rx_slots_free();
  inter_worker.on_migrated_connection(migration_of(tuple, 99));
  EXPECT_EQ(state.find_connection(tuple), FlowTable::kNone);
  EXPECT_EQ(memory.rx_slots_free(), slots_free);
}

TEST_F(InterWorkerPartTest, AConnectionWithoutAPlaceFailsForItsClient) {
  while (!lifecycle.is_full()) open();
  inter_worker.on_migrated_connection(migration_of(moving_tuple()));
  announcements.announce_all();
  std::optional<channel::Completion> told;
  while (const auto next = next_completion()) {
    if (next->event == channel::Event::kConnectFailed) told = next;
  }
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->status, channel::EndStatus::kNoResources);
  EXPECT_EQ(told->body.opened.cookie, 77u);
}

}  // namespace
}  // namespace lyre::worker
