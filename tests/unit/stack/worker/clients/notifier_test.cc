#include "stack/worker/clients/notifier.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "stack/channel/ring.h"
#include "stack/worker/turn_limits.h"

// The notifier between tables and real rings. Its host is played: it knows no TCP.
namespace lyre::worker {
namespace {

using channel::Event;

constexpr uint32_t kSlots = 32;
constexpr uint32_t kSlotBytes = 4096;
constexpr uint32_t kBlocks = 8;
/// More than one turn tells of.
constexpr uint32_t kSessions = kAnnouncedPerPollMax + 4;

struct PlayedHost {
  const FourTuple& tuple(uint32_t conn) const { return tuples[conn]; }
  tcp::SendSide send_side(uint32_t) const { return {nanos(1500), micros(210), is_window_closed}; }
  bool may_lend(uint32_t) const { return !is_low; }
  std::optional<ReceivedBytes> take_received(uint32_t conn) {
    if (received[conn].empty()) return std::nullopt;
    const ReceivedBytes bytes = received[conn].front();
    received[conn].pop_front();
    return bytes;
  }
  void release_slot(uint32_t, uint32_t slot) { released.push_back(slot); }
  void return_charge(uint32_t, uint32_t charge_bytes) { returned_bytes += charge_bytes; }
  bool must_wait_for_port(uint32_t) const {
    ++looks;
    return is_held;
  }
  void on_open_told(uint32_t conn) { opens_told.push_back(conn); }
  void on_end_told(uint32_t conn) { ends_told.push_back(conn); }
  void expel(Context& context, const char* reason) {
    context.state = Context::State::kExpelled;
    expelled_for = reason;
  }

  FourTuple tuples[kSessions];
  std::deque<ReceivedBytes> received[kSessions];
  bool is_low = false;
  bool is_held = false;
  bool is_window_closed = false;
  mutable uint32_t looks = 0;  ///< at sessions with finished sends
  std::vector<uint32_t> released;
  uint32_t returned_bytes = 0;
  std::vector<uint32_t> opens_told;
  std::vector<uint32_t> ends_told;
  std::string expelled_for;
};

class NotifierTest : public testing::Test {
 protected:
  NotifierTest() {
    Context& context = contexts.open(1);
    context.is_lent = true;
    context.completions = {&rings->completion_indices, rings->completions};
    context.attached.memory = memory.data();
    context.attached.copy_offset = sizeof(channel::ContextHeader);
    context.attached.wake_fd = bell;
    context.copy_blocks = CopyBlocks(kBlocks * kCopyBlockBytes);
    for (uint32_t conn = 0; conn < kSessions; ++conn) {
      sessions[conn].context = 1;
      sessions[conn].generation = 100 + conn;
      sessions[conn].was_announced = true;
    }
  }
  ~NotifierTest() override { close(bell); }

  Context& context() { return contexts[1]; }
  size_t announce() { return notifier.announce_all(host, now); }
  /// What the client finds in its ring.
  std::vector<channel::Completion> told() {
    std::vector<channel::Completion> entries;
    while (ring.available() > 0) entries.push_back(ring.pop());
    ring.publish();
    return entries;
  }
  void receive(uint32_t conn, uint32_t slot) {
    host.received[conn].push_back({.slot = slot, .bytes = payload, .pool_offset = slot * 100});
    sessions[conn].has_readable = true;
    notifier.mark(conn);
  }
  void finish_send(uint32_t conn) {
    ++sessions[conn].sends.finished_count;
    notifier.mark(conn);
  }

  Nanos now = seconds(1);
  PlayedHost host;
  std::vector<uint8_t> payload = std::vector<uint8_t>(50, 7);
  std::vector<uint8_t> memory =
      std::vector<uint8_t>(sizeof(channel::ContextHeader) + kBlocks * kCopyBlockBytes);
  int bell = eventfd(0, EFD_NONBLOCK);
  std::unique_ptr<channel::RingPair> rings = std::make_unique<channel::RingPair>();
  channel::CompletionConsumer ring{&rings->completion_indices, rings->completions};
  std::vector<session::Session> sessions = std::vector<session::Session>(kSessions);
  ContextTable contexts{4};
  SlotLoans loans{kSlots, {.contexts_max = 4, .per_session_max = 8}};
  channel::WorkerStats stats{};
  Notifier notifier{
      {contexts, sessions.data(), loans, stats}, {.index = 3, .slot_bytes = kSlotBytes}, 4};
};

TEST_F(NotifierTest, ASessionThatNobodyOwnsHasNoNews) {
  sessions[0].context = session::kNoContext;
  notifier.mark(0);
  notifier.remove(0);
  EXPECT_EQ(announce(), 0u);
  EXPECT_TRUE(told().empty());
}

TEST_F(NotifierTest, TellsThatThePeersWindowIsClosedAndThatItIsNot) {
  for (const bool is_closed : {true, false}) {
    host.is_window_closed = is_closed;
    sessions[0].must_announce_progress = true;
    notifier.mark(0);
    EXPECT_EQ(announce(), 1u);
    const auto entries = told();
    ASSERT_EQ(entries.size(), 1u);
    EXPECT_EQ(entries[0].event, Event::kSendDone);
    EXPECT_EQ(entries[0].body.send_done.is_window_closed, is_closed ? 1u : 0u);
    EXPECT_EQ(sessions[0].is_told_closed, is_closed);
  }
}

TEST_F(NotifierTest, TellsAllNewsOfASessionInOrder) {
  sessions[0].must_announce_open = true;
  sessions[0].must_announce_finish = sessions[0].must_announce_end = true;
  finish_send(0);
  receive(0, 5);
  EXPECT_EQ(announce(), 1u);
  const auto entries = told();
  ASSERT_EQ(entries.size(), 5u);
  EXPECT_EQ(entries[0].event, Event::kConnected);
  EXPECT_EQ(entries[1].event, Event::kSendDone);
  EXPECT_EQ(entries[1].body.send_done.descriptors, 1u);
  EXPECT_EQ(entries[1].body.send_done.rtt_min_us, 2u);
  EXPECT_EQ(entries[1].body.send_done.rto_us, 210u);
  EXPECT_EQ(entries[2].event, Event::kData);
  EXPECT_EQ(entries[2].body.data[0].slot, 5u);
  EXPECT_EQ(entries[2].body.data[0].offset, 500u);
  EXPECT_EQ(entries[3].event, Event::kPeerFinished);
  EXPECT_EQ(entries[4].event, Event::kEnded);
  EXPECT_EQ(entries[4].session.generation, 100u);
  EXPECT_EQ(host.opens_told, (std::vector<uint32_t>{0}));
  EXPECT_EQ(host.ends_told, (std::vector<uint32_t>{0}));
  EXPECT_FALSE(notifier.has_untold());
  EXPECT_EQ(announce(), 0u);
}

TEST_F(NotifierTest, TellsWhyFinishedSendsWereNotAcknowledged) {
  sessions[0].end_status = sessions[1].end_status = channel::EndStatus::kAddressLost;
  sessions[1].has_dropped_sends = true;
  for (const uint32_t conn : {0, 1}) {
    sessions[conn].must_announce_end = true;
    finish_send(conn);
  }
  EXPECT_EQ(announce(), 2u);
  const auto entries = told();
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].event, Event::kSendDone);
  EXPECT_EQ(entries[0].status, channel::EndStatus::kOk) << "all were acknowledged before the end";
  EXPECT_EQ(entries[2].event, Event::kSendDone);
  EXPECT_EQ(entries[2].status, channel::EndStatus::kUnreachable);
  EXPECT_EQ(entries[2].exact, channel::EndStatus::kAddressLost);
}

// A client may read nothing until its sends are finished.
TEST_F(NotifierTest, DroppedSendsDoNotWaitForBytesThatTheClientDoesNotRead) {
  context().is_lent = false;
  for (uint32_t slot = 0; slot < kBlocks; ++slot) {
    receive(0, slot);
    announce();
  }
  told();
  ASSERT_TRUE(sessions[0].has_readable);
  sessions[0].end_status = channel::EndStatus::kReset;
  sessions[0].must_announce_end = sessions[0].has_dropped_sends = true;
  finish_send(0);
  EXPECT_EQ(announce(), 0u);
  const auto entries = told();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].event, Event::kSendDone);
  EXPECT_EQ(entries[0].status, channel::EndStatus::kReset);
}

TEST_F(NotifierTest, AFullRingLosesNothing) {
  for (uint32_t i = 0; i < channel::kCompletionEntries; ++i) {
    notifier.answer_open(context(), Event::kListening, channel::EndStatus::kOk, i, {}, {});
  }
  finish_send(2);
  EXPECT_EQ(announce(), 0u);
  EXPECT_TRUE(notifier.has_untold());
  EXPECT_EQ(told().size(), channel::kCompletionEntries);
  EXPECT_EQ(announce(), 1u);
  const auto entries = told();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].session.index, 2u);
}

/// Another client, whose news come after those of the first.
class TwoClientsTest : public NotifierTest {
 protected:
  static constexpr uint32_t kOther = kSessions - 1;

  TwoClientsTest() {
    Context& other = contexts.open(2);
    other.completions = {&other_rings->completion_indices, other_rings->completions};
    other.attached.memory = memory.data();
    other.attached.wake_fd = bell;
    sessions[kOther].context = 2;
  }
  std::unique_ptr<channel::RingPair> other_rings = std::make_unique<channel::RingPair>();
  channel::CompletionConsumer other_ring{&other_rings->completion_indices,
                                         other_rings->completions};
};

TEST_F(TwoClientsTest, NewsOfAClientWaitForThoseOfAnotherForOneTurnAtMost) {
  for (uint32_t conn = 0; conn < kAnnouncedPerPollMax; ++conn) finish_send(conn);
  finish_send(kOther);
  EXPECT_EQ(announce(), kAnnouncedPerPollMax);
  EXPECT_TRUE(notifier.has_untold());
  EXPECT_EQ(other_ring.available(), 0u);
  // The first client takes its news, and has as many again.
  EXPECT_EQ(told().size(), kAnnouncedPerPollMax);
  for (uint32_t conn = 0; conn < kAnnouncedPerPollMax; ++conn) finish_send(conn);
  announce();
  EXPECT_EQ(other_ring.available(), 1u);
}

TEST_F(TwoClientsTest, AClientThatTakesNoNewsCostsATurnFewLooks) {
  for (uint32_t i = 0; i < channel::kCompletionEntries; ++i) {
    notifier.answer_open(context(), Event::kListening, channel::EndStatus::kOk, i, {}, {});
  }
  for (uint32_t conn = 0; conn < kOther; ++conn) finish_send(conn);
  finish_send(kOther);
  EXPECT_EQ(announce(), 1u);
  EXPECT_EQ(host.looks, kUntoldInARowMax + 1) << "and one at the other client";
  EXPECT_EQ(other_ring.available(), 1u);
  // The others are first in the next turn.
  EXPECT_EQ(told().size(), channel::kCompletionEntries);
  announce();
  const auto entries = told();
  ASSERT_FALSE(entries.empty());
  EXPECT_EQ(entries[0].session.index, kUntoldInARowMax);
}

TEST_F(NotifierTest, AnOpenThatWasNeverToldFails) {
  sessions[1].was_announced = false;
  sessions[1].must_announce_end = true;
  sessions[1].end_status = channel::EndStatus::kRefused;
  sessions[1].cookie = 9;
  notifier.mark(1);
  EXPECT_EQ(announce(), 1u);
  const auto entries = told();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].event, Event::kConnectFailed);
  EXPECT_EQ(entries[0].status, channel::EndStatus::kRefused);
  EXPECT_EQ(entries[0].body.opened.cookie, 9u);
}

TEST_F(NotifierTest, APortThatHoldsMemoryDelaysOnlyWhatGivesItBack) {
  host.is_held = true;
  sessions[0].must_announce_open = sessions[0].must_announce_finish = true;
  sessions[0].must_announce_end = true;
  finish_send(0);
  receive(0, 5);
  finish_send(1);
  EXPECT_EQ(announce(), 0u);
  EXPECT_FALSE(notifier.has_untold()) << "it waits neither for room nor for slots";
  const auto first = told();
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(first[0].event, Event::kConnected);
  EXPECT_EQ(first[1].event, Event::kData);
  EXPECT_EQ(first[2].event, Event::kPeerFinished);
  EXPECT_TRUE(context().dirty.empty()) << "they are not looked at in each turn";
  EXPECT_EQ(announce(), 0u);
  receive(1, 6);
  EXPECT_EQ(announce(), 0u);
  ASSERT_EQ(told().size(), 1u) << "other events are told meanwhile";
  host.is_held = false;
  while (notifier.first_held_by(0) != HeldSessions::kNone) {
    notifier.mark(notifier.first_held_by(0));
  }
  EXPECT_EQ(announce(), 2u);
  const auto second = told();
  ASSERT_EQ(second.size(), 3u);
  EXPECT_EQ(second[0].event, Event::kSendDone);
  EXPECT_EQ(second[1].event, Event::kEnded);
  EXPECT_EQ(second[2].event, Event::kSendDone);
}

TEST_F(NotifierTest, LendsSlotsAndCopiesWhereThePoolIsLow) {
  receive(0, 5);
  EXPECT_EQ(announce(), 1u);
  EXPECT_EQ(loans.lent_to(1), 1u);
  EXPECT_EQ(sessions[0].lent_slots, 1u);
  EXPECT_EQ(told()[0].pool, 3u);
  host.is_low = true;
  receive(0, 6);
  receive(0, 7);
  EXPECT_EQ(announce(), 1u);
  EXPECT_EQ(host.released, (std::vector<uint32_t>{6, 7}));
  const auto entries = told();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].pool, channel::kPoolContext);
  EXPECT_EQ(entries[0].body.data[0].bytes, 100u);
  EXPECT_EQ(memory[entries[0].body.data[0].offset], 7u);
  EXPECT_EQ(context().copy_blocks.take_back(0)->charge_bytes, 2 * kSlotBytes);
  EXPECT_EQ(stats.copied_rx_bytes.get(), 100u);
}

// The window of a session that has more slots than a block has bytes opens for the rest at once.
TEST_F(NotifierTest, SmallSegmentsInABlockAreChargedAsTheBlock) {
  host.is_low = true;
  for (uint32_t slot = 1; slot <= 8; ++slot) receive(0, slot);
  EXPECT_EQ(announce(), 1u);
  EXPECT_EQ(context().copy_blocks.take_back(0)->charge_bytes, kCopyBlockBytes);
  EXPECT_EQ(host.returned_bytes, 8 * kSlotBytes - kCopyBlockBytes);
}

TEST_F(NotifierTest, ASessionWhoseBytesNobodyReadsLeavesBlocksToOthers) {
  context().is_lent = false;
  for (uint32_t slot = 0; slot < kBlocks; ++slot) {
    receive(0, slot);
    announce();
  }
  EXPECT_EQ(told().size(), kBlocks / 2);
  EXPECT_TRUE(sessions[0].has_readable) << "the rest stays where it counts against its window";
  EXPECT_EQ(host.received[0].size(), kBlocks / 2);
  for (const uint32_t other : {1, 2, 3}) {
    receive(other, kBlocks + other);
    EXPECT_EQ(announce(), 1u);
    EXPECT_EQ(told().size(), 1u);
  }
}

TEST_F(NotifierTest, WithoutSlotsAndBlocksTheBytesWait) {
  context().copy_blocks = CopyBlocks(0);
  context().is_lent = false;
  receive(0, 5);
  EXPECT_EQ(announce(), 0u);
  EXPECT_TRUE(notifier.has_untold());
  context().is_lent = true;
  EXPECT_EQ(announce(), 1u);
  EXPECT_EQ(told().size(), 1u);
}

TEST_F(NotifierTest, RingsTheBellOfAClientThatSleepsOnce) {
  uint64_t rings_heard = 0;
  finish_send(0);
  announce();
  EXPECT_NE(eventfd_read(bell, &rings_heard), 0) << "it did not sleep";
  context().header().client_sleeps.store(1);
  finish_send(0);
  announce();
  finish_send(0);
  announce();
  EXPECT_EQ(eventfd_read(bell, &rings_heard), 0);
  EXPECT_EQ(rings_heard, 1u);
}

// As a port with super-packets has them.
TEST_F(NotifierTest, SlotsThatAreLargerThanABlockAreCopied) {
  Notifier large{{contexts, sessions.data(), loans, stats},
                 {.index = 3, .slot_bytes = kCopyBlockBytes + 512},
                 4};
  context().is_lent = false;
  payload.resize(kCopyBlockBytes);
  host.received[0] = {{.slot = 1, .bytes = payload, .pool_offset = 0},
                      {.slot = 2, .bytes = {payload.data(), 7}, .pool_offset = 0}};
  sessions[0].has_readable = true;
  large.mark(0);
  large.announce_all(host, now);
  const auto entries = told();
  uint32_t bytes = 0;
  for (const channel::Completion& entry : entries) {
    EXPECT_EQ(entry.event, Event::kData);
    EXPECT_EQ(entry.pool, channel::kPoolContext);
    for (uint32_t i = 0; i < entry.count; ++i) bytes += entry.body.data[i].bytes;
  }
  EXPECT_EQ(bytes, kCopyBlockBytes + 7);
  EXPECT_EQ(host.released, (std::vector<uint32_t>{1, 2}));
}

TEST_F(NotifierTest, AnIndexOutOfRangeExpelsTheClient) {
  rings->completion_indices.head.store(channel::kCompletionEntries + 5);
  for (uint32_t i = 0; i < channel::kCompletionEntries; ++i) {
    notifier.answer_open(context(), Event::kListening, channel::EndStatus::kOk, i, {}, {});
  }
  finish_send(0);
  EXPECT_EQ(announce(), 0u);
  EXPECT_FALSE(host.expelled_for.empty());
}

// The client was disconnected for a ring that was full.
TEST_F(NotifierTest, FailedOpensWaitForRoomInTheRing) {
  while (context().completions.room() > 0) context().completions.push({});
  const auto fail = [&](uint64_t cookie) {
    return notifier.try_fail_open(
        context(),
        {.cookie = cookie, .tuple = {}, .status = channel::EndStatus::kNoResources, .link = {}});
  };
  for (uint64_t cookie = 0; cookie < 3; ++cookie) EXPECT_TRUE(fail(cookie));
  EXPECT_EQ(announce(), 0u);
  EXPECT_TRUE(notifier.has_untold());
  EXPECT_EQ(told().size(), channel::kCompletionEntries);
  EXPECT_TRUE(fail(3));
  EXPECT_EQ(notifier.failed_open_count(), 4u) << "behind the earlier ones";
  EXPECT_EQ(announce(), 4u);
  EXPECT_FALSE(notifier.has_untold());
  EXPECT_EQ(notifier.failed_open_count(), 0u);
  const auto entries = told();
  ASSERT_EQ(entries.size(), 4u);
  for (uint64_t cookie = 0; cookie < 4; ++cookie) {
    EXPECT_EQ(entries[cookie].event, Event::kConnectFailed);
    EXPECT_EQ(entries[cookie].status, channel::EndStatus::kNoResources);
    EXPECT_EQ(entries[cookie].body.opened.cookie, cookie);
  }
}

TEST_F(NotifierTest, SoManyFailedOpensOfAClientAreKept) {
  while (context().completions.room() > 0) context().completions.push({});
  for (uint32_t i = 0; i < kFailedOpensPerContextMax; ++i) {
    EXPECT_TRUE(notifier.try_fail_open(context(), {}));
  }
  EXPECT_FALSE(notifier.try_fail_open(context(), {}));
  EXPECT_EQ(notifier.failed_open_count(), kFailedOpensPerContextMax);
  notifier.forget_failed_opens(context());
  EXPECT_EQ(notifier.failed_open_count(), 0u);
}

}  // namespace
}  // namespace lyre::worker
