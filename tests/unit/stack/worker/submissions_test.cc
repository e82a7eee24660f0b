#include "stack/worker/submissions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "stack/worker/turn_limits.h"
#include "tests/unit/stack/worker/worker_parts.h"

namespace lyre::worker {
namespace {

using channel::EndStatus;
using channel::Event;
using channel::Op;
using channel::Submission;

class SubmissionsTest : public WorkerParts {
 protected:
  SubmissionsTest() { attach(); }

  static Submission connect_to(const Endpoint& remote) {
    Submission entry{.op = Op::kConnect};
    std::copy(remote.address.bytes.begin(), remote.address.bytes.end(),
              entry.body.open.remote_address);
    entry.body.open.remote_port = remote.port;
    entry.body.open.cookie = 77;
    return entry;
  }
  static Submission listen_at(uint16_t port) {
    Submission entry{.op = Op::kListen, .backlog = 4};
    std::copy(kOwn.bytes.begin(), kOwn.bytes.end(), entry.body.open.local_address);
    entry.body.open.local_port = port;
    return entry;
  }
  static Submission send_of(channel::SessionName session, uint32_t bytes) {
    Submission entry{.op = Op::kSend, .session = session};
    entry.body.send.bytes = bytes;
    return entry;
  }
  /// What the client is told in answer.
  channel::Completion answer_to(const Submission& entry) {
    submit(entry);
    EXPECT_EQ(submissions.take(), 1u);
    announcements.announce_all();
    const auto answer = next_completion();
    EXPECT_TRUE(answer.has_value());
    return answer.value_or(channel::Completion{});
  }
  /// The rule for which the client is expelled; empty: it is not.
  std::string rule_broken_by(const Submission& entry) {
    submit(entry);
    submissions.take();
    const auto reply = next_reply();
    if (!reply) return "";
    EXPECT_EQ(reply->kind, Reply::Kind::kExpelled);
    return reply->reason;
  }
};

TEST_F(SubmissionsTest, AConnectIsAnsweredWithTheSession) {
  const auto answer = answer_to(connect_to(kPeer));
  EXPECT_EQ(answer.event, Event::kConnecting);
  EXPECT_EQ(answer.body.opened.cookie, 77u);
  EXPECT_TRUE(state.is_same_session(answer.session.index, answer.session.generation));
}

TEST_F(SubmissionsTest, AConnectThatFailsIsAnsweredWithTheReason) {
  const auto answer = answer_to(connect_to({IpAddress::v4(0x01020304), 80}));
  EXPECT_EQ(answer.event, Event::kConnectFailed);
  EXPECT_EQ(answer.status, EndStatus::kUnreachable);
  EXPECT_EQ(answer.exact, EndStatus::kNoRoute);
  EXPECT_EQ(answer.body.opened.cookie, 77u);
  EXPECT_EQ(stats.connect_failures.get(), 1u);
}

TEST_F(SubmissionsTest, AnAddressHasOneListenerUntilItIsClosed) {
  const auto first = answer_to(listen_at(5000));
  ASSERT_EQ(first.event, Event::kListening);
  const auto second = answer_to(listen_at(5000));
  EXPECT_EQ(second.event, Event::kListenFailed);
  EXPECT_EQ(second.status, EndStatus::kAddressInUse);
  submit({.op = Op::kCloseListen, .session = first.session});
  submissions.take();
  EXPECT_EQ(answer_to(listen_at(5000)).event, Event::kListening);
}

// It may have died while it read no completions. What it sent before is the peer's.
TEST_F(SubmissionsTest, OfAClientThatLeftSendsAreTakenAlsoWithoutRoomForAnswers) {
  learn_peer();
  const uint32_t conn = open();
  Context& context = state.contexts[kContext];
  while (context.completions.room() > 0) context.completions.push({});
  submit(connect_to(kPeer));
  submit(send_of({.index = conn, .generation = state.session(conn).generation}, 100));
  EXPECT_EQ(submissions.take(), 0u);
  context.state = Context::State::kDetaching;
  const char* broken_rule = nullptr;
  EXPECT_EQ(submissions.take_of(context, broken_rule), 2u);
  EXPECT_EQ(broken_rule, nullptr);
  EXPECT_EQ(state.session(conn).sends.piece_count, 1u);
  EXPECT_EQ(context.sessions.size(), 1u) << "nothing is opened any more";
  context.state = Context::State::kAttached;
}

TEST_F(SubmissionsTest, ATurnTakesSoManyOfAClient) {
  for (size_t i = 0; i < kSubmissionsPerContextMax + 1; ++i) submit({.op = Op::kClose});
  EXPECT_EQ(submissions.take(), kSubmissionsPerContextMax);
  EXPECT_TRUE(submissions.are_waiting());
  EXPECT_EQ(submissions.take(), 1u);
  EXPECT_FALSE(submissions.are_waiting());
}

// An open costs as much as many other submissions: packets of others would wait.
TEST_F(SubmissionsTest, ATurnTakesFewOpensOfAClient) {
  for (size_t i = 0; i < kOpensPerContextMax + 1; ++i) submit(connect_to(kPeer));
  EXPECT_EQ(submissions.take(), kOpensPerContextMax);
  EXPECT_TRUE(submissions.are_waiting());
  EXPECT_EQ(submissions.take(), 1u);
}

TEST_F(SubmissionsTest, ATurnTakesFewOpensOfAllClients) {
  constexpr uint32_t kClients = kOpensPerPollMax / kOpensPerContextMax + 1;
  for (uint32_t client = kContext + 1; client < kClients; ++client) attach(client);
  for (uint32_t client = kContext; client < kClients; ++client) {
    for (size_t i = 0; i < kOpensPerContextMax; ++i) submit(connect_to(kPeer), client);
  }
  EXPECT_EQ(submissions.take(), kOpensPerPollMax);
  EXPECT_TRUE(submissions.are_waiting());
  EXPECT_EQ(submissions.take(), kOpensPerContextMax) << "those of the client that had no turn";
  EXPECT_FALSE(submissions.are_waiting());
}

TEST_F(SubmissionsTest, NothingIsTakenWithoutRoomForTheAnswer) {
  channel::CompletionProducer& completions = state.contexts[kContext].completions;
  while (completions.room() > 0) completions.push({});
  completions.publish();
  submit(connect_to(kPeer));
  EXPECT_EQ(submissions.take(), 0u);
  EXPECT_FALSE(submissions.are_waiting()) << "the worker may sleep";
  EXPECT_TRUE(submissions.are_held_up());
  ASSERT_TRUE(next_completion().has_value());
  EXPECT_TRUE(submissions.are_waiting());
  EXPECT_FALSE(submissions.are_held_up());
  EXPECT_EQ(submissions.take(), 1u);
}

TEST_F(SubmissionsTest, ANameThatIsNoLongerInUseIsIgnored) {
  const uint32_t conn = open();
  channel::SessionName stale = state.name_of(conn);
  ++stale.generation;
  EXPECT_EQ(rule_broken_by({.op = Op::kAbort, .session = stale}), "");
  EXPECT_EQ(rule_broken_by({.op = Op::kAbort, .session = {.index = 1'000'000}}), "");
  EXPECT_EQ(state.engine.state(conn), tcp::State::kSynSent);
}

TEST_F(SubmissionsTest, AClientThatBreaksARuleIsExpelledAndReadNoMore) {
  submit({.op = static_cast<Op>(200)});
  submit({.op = Op::kClose});
  EXPECT_EQ(submissions.take(), 1u);
  EXPECT_EQ(state.contexts[kContext].state, Context::State::kExpelled);
  EXPECT_EQ(submissions.take(), 0u);
  const auto reply = next_reply();
  ASSERT_TRUE(reply.has_value());
  EXPECT_STREQ(reply->reason, "unknown submission");
}

TEST_F(SubmissionsTest, OnlyASlotThatWasLentCanBeReleased) {
  Submission entry{.op = Op::kRelease, .count = 1};
  entry.body.release.slots[0] = 3;
  EXPECT_EQ(rule_broken_by(entry), "kRelease of a slot that was not lent to this client");
}

TEST_F(SubmissionsTest, ASendHasALengthWithinItsLimits) {
  const channel::SessionName session = state.name_of(open());
  EXPECT_EQ(rule_broken_by(send_of(session, 1000)), "");
  EXPECT_EQ(state.contexts[kContext].sends_under_way, 1u);
  EXPECT_EQ(rule_broken_by(send_of(session, 0)), "kSend of a forbidden length");
}

// The count alone would tell the client that the peer acknowledged it.
TEST_F(SubmissionsTest, ASendBehindTheEndOfItsSessionIsFinishedWithTheReason) {
  const uint32_t conn = open();
  const channel::SessionName session = state.name_of(conn);
  lifecycle.abort(conn, EndStatus::kDeregistered);
  const auto answer = answer_to(send_of(session, 1000));
  EXPECT_EQ(answer.event, Event::kSendDone);
  EXPECT_EQ(answer.status, EndStatus::kDeregistered);
  EXPECT_EQ(answer.body.send_done.descriptors, 1u);
  EXPECT_EQ(state.contexts[kContext].sends_under_way, 0u);
}

TEST_F(SubmissionsTest, ASendOfADeregisteredRegionIsFinishedWithThatReason) {
  Submission entry = send_of(state.name_of(open()), 1000);
  entry.body.send.region = 1u << channel::kRegionIndexBits | kContextsMax;
  const auto answer = answer_to(entry);
  EXPECT_EQ(answer.event, Event::kSendDone);
  EXPECT_EQ(answer.status, EndStatus::kDeregistered);
  EXPECT_EQ(answer.body.send_done.descriptors, 1u);
}

TEST_F(SubmissionsTest, NothingCanBeSentAfterAShutdown) {
  const channel::SessionName session = state.name_of(open());
  EXPECT_EQ(rule_broken_by({.op = Op::kShutdown, .session = session}), "");
  EXPECT_EQ(rule_broken_by(send_of(session, 1000)), "kSend after kShutdown");
}

TEST_F(SubmissionsTest, ARingWhoseIndexIsOutOfRangeBreaksTheRules) {
  state.contexts[kContext].attached.rings->submission_indices.tail =
      channel::kSubmissionEntries + 1;
  submissions.take();
  const auto reply = next_reply();
  ASSERT_TRUE(reply.has_value());
  EXPECT_STREQ(reply->reason, "submission ring index out of range");
}

/// The worker is the first of two. The second one does not run.
class SubmissionsOfTwoWorkers : public SubmissionsTest {
 protected:
  SubmissionsOfTwoWorkers() {
    state.router = ConnectionRouter(
        {.index = 0, .worker_count = 2, .rings = &rings_, .claims_max = 8, .key = {1, 2}});
    while (state.router.knows_claims(claimed_there_)) ++claimed_there_.local.port;
  }
  /// From a local port that is claimed at the second worker.
  Submission connect_from_there() const {
    Submission entry = connect_to(kPeer);
    entry.body.open.local_port = claimed_there_.local.port;
    return entry;
  }
  /// Until an open has no room for its claim.
  void fill_ring() {
    while (state.router.can_claim(claimed_there_)) {
      ASSERT_TRUE(state.router.claim(claimed_there_));
    }
  }
  void read_ring() {
    WorkerMessage message;
    while (rings_.ring(0, 1).try_take(message)) {
    }
  }

 private:
  InterWorkerRings rings_{2};
  FourTuple claimed_there_{{kOwn, 20'000}, kPeer};
};

// The client was told that no connection was left, and opened fewer of them from then on.
TEST_F(SubmissionsOfTwoWorkers, AnOpenWaitsForRoomInTheRingToAnotherWorker) {
  fill_ring();
  submit(connect_from_there());
  submit({.op = Op::kClose});
  EXPECT_EQ(submissions.take(), 0u);
  announcements.announce_all();
  EXPECT_FALSE(next_completion().has_value());
  EXPECT_EQ(stats.connect_failures.get(), 0u);
  EXPECT_FALSE(submissions.are_waiting()) << "the worker may sleep";
  EXPECT_TRUE(submissions.are_held_up());
  read_ring();
  EXPECT_EQ(submissions.take(), 2u);
  EXPECT_FALSE(submissions.are_held_up());
  announcements.announce_all();
  const auto answer = next_completion();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->event, Event::kConnecting);
  EXPECT_EQ(answer->body.opened.cookie, 77u);
}

TEST_F(SubmissionsOfTwoWorkers, AnOpenThatWaitsHoldsUpNoOtherClient) {
  attach(kContext + 1);
  fill_ring();
  submit(connect_from_there());
  submit(connect_to({IpAddress::v4(0x01020304), 80}), kContext + 1);
  EXPECT_EQ(submissions.take(), 1u);
  EXPECT_EQ(stats.connect_failures.get(), 1u) << "no route";
}

// Of a client that left nothing is opened any more.
TEST_F(SubmissionsOfTwoWorkers, AnOpenThatWaitsEndsWithItsClient) {
  fill_ring();
  submit(connect_from_there());
  EXPECT_EQ(submissions.take(), 0u);
  Context& context = state.contexts[kContext];
  context.state = Context::State::kDetaching;
  const char* broken_rule = nullptr;
  EXPECT_EQ(submissions.take_of(context, broken_rule), 1u);
  EXPECT_TRUE(context.sessions.empty());
  context.state = Context::State::kAttached;
}

}  // namespace
}  // namespace lyre::worker
