#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "tests/unit/libclient/fake_daemon.h"

namespace lyre::client {
namespace {

using channel::EndStatus;
using channel::Op;
using channel::SessionName;
using channel::Submission;

constexpr SessionName kSessionName{.index = 7, .generation = 3};

class SessionTest : public ::testing::Test {
 protected:
  explicit SessionTest(const FakeDaemonOptions& options = {})
      : daemon_(options), context_(daemon_.attach()) {}
  ~SessionTest() override { lyre_context_close(context_); }

  FakeDaemon daemon_;
  lyre_context* context_;
};

TEST_F(SessionTest, ConnectsByCookie) {
  const lyre_addr remote = address("10.9.0.2:5000");
  const lyre_addr local = address("10.9.0.1:0");
  lyre_session* session = nullptr;
  ASSERT_EQ(0, lyre_connect(context_, &local, &remote, &session));
  EXPECT_EQ(LYRE_CONNECTING, lyre_state(session));
  EXPECT_EQ(LYRE_E_NOTCONNECTED, lyre_send(session, "x", 1));
  EXPECT_EQ(LYRE_E_NOTCONNECTED, lyre_shutdown(session));
  char byte;
  EXPECT_EQ(LYRE_E_AGAIN, lyre_recv(session, &byte, 1));
  const Submission entry = daemon_.take();
  EXPECT_EQ(Op::kConnect, entry.op);
  EXPECT_EQ(5000, entry.body.open.remote_port);
  EXPECT_EQ(0, memcmp(remote.address, entry.body.open.remote_address, 16));
  EXPECT_EQ(0, memcmp(local.address, entry.body.open.local_address, 16));
  daemon_.tell(connected(entry.body.open.cookie, kSessionName));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  EXPECT_EQ(LYRE_OPEN, lyre_state(session));
  lyre_addr bound{};
  lyre_session_addrs(session, &bound, nullptr);
  EXPECT_EQ(4000, bound.port);
}

TEST_F(SessionTest, SaysWhyAConnectionFailed) {
  const lyre_addr remote = address("10.9.0.2:5000");
  lyre_session* session = nullptr;
  ASSERT_EQ(0, lyre_connect(context_, nullptr, &remote, &session));
  daemon_.tell(connect_failed(daemon_.take().body.open.cookie, EndStatus::kRefused));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  EXPECT_EQ(LYRE_ENDED, lyre_state(session));
  EXPECT_EQ(LYRE_E_REFUSED, lyre_session_error(session));
  EXPECT_EQ(LYRE_E_REFUSED, lyre_send(session, "x", 1));
  char byte;
  EXPECT_EQ(LYRE_E_REFUSED, lyre_recv(session, &byte, 1));
  lyre_close(session);
  EXPECT_FALSE(daemon_.try_take());  // it has no name to close
}

// The code stays what libraries of every version know; the text says which kind it is.
TEST_F(SessionTest, SaysWhyAPeerCannotBeReached) {
  const auto text_of = [this](EndStatus status, EndStatus exact) -> std::string {
    const lyre_addr remote = address("10.9.0.2:5000");
    lyre_session* session = nullptr;
    EXPECT_EQ(0, lyre_connect(context_, nullptr, &remote, &session));
    channel::Completion entry = connect_failed(daemon_.take().body.open.cookie, status);
    entry.exact = exact;
    daemon_.tell(entry);
    EXPECT_EQ(1, lyre_poll(context_, 0));
    EXPECT_EQ(-static_cast<int>(status), lyre_session_error(session));
    const std::string text = lyre_last_error();
    EXPECT_EQ(-static_cast<int>(status), lyre_send(session, "x", 1));
    EXPECT_EQ(text, lyre_last_error());
    lyre_close(session);
    return text;
  };
  const std::string general = lyre_strerror(LYRE_E_UNREACHABLE);
  EXPECT_EQ(general, text_of(EndStatus::kUnreachable, EndStatus::kOk)) << "an older daemon";
  EXPECT_EQ(general, text_of(EndStatus::kUnreachable, EndStatus{200})) << "a newer daemon";
  EXPECT_EQ("no route to the peer: see `lyre routes`",
            text_of(EndStatus::kUnreachable, EndStatus::kNoRoute));
  std::set<std::string> texts{general};
  for (const EndStatus exact : {EndStatus::kNoRoute, EndStatus::kNoNeighbour, EndStatus::kForbidden,
                                EndStatus::kIcmpError, EndStatus::kAddressLost}) {
    EXPECT_TRUE(texts.insert(text_of(EndStatus::kUnreachable, exact)).second);
  }
  EXPECT_EQ(lyre_strerror(LYRE_E_REFUSED), text_of(EndStatus::kRefused, EndStatus::kNoRoute));
}

TEST_F(SessionTest, RefusesToConnectToNobody) {
  lyre_session* session = nullptr;
  for (const char* text : {"10.9.0.2:0", ":5000"}) {
    const lyre_addr remote = address(text);
    EXPECT_EQ(LYRE_E_INVALID, lyre_connect(context_, nullptr, &remote, &session));
    EXPECT_EQ(nullptr, session);
  }
}

TEST_F(SessionTest, ASessionClosedWhileItConnectsIsAborted) {
  const lyre_addr remote = address("10.9.0.2:5000");
  for (const bool is_named_before : {true, false}) {
    lyre_session* session = nullptr;
    ASSERT_EQ(0, lyre_connect(context_, nullptr, &remote, &session));
    const uint64_t cookie = daemon_.take().body.open.cookie;
    if (!is_named_before) lyre_close(session);
    EXPECT_FALSE(daemon_.try_take());
    daemon_.tell(connecting(cookie, kSessionName));
    EXPECT_EQ(0, lyre_poll(context_, 0));
    if (is_named_before) lyre_close(session);
    const Submission last = daemon_.take();
    EXPECT_EQ(Op::kAbort, last.op);
    EXPECT_EQ(kSessionName, last.session);
    daemon_.tell(connect_failed(cookie, EndStatus::kAborted));
    EXPECT_EQ(0, lyre_poll(context_, 0));
  }
  EXPECT_EQ(0u, next_event(context_).happened);
}

TEST_F(SessionTest, AnotherWorkersAnswerMayComeBeforeTheNameOfTheFirst) {
  FakeDaemon daemon({.worker_count = 2});
  lyre_context* context = daemon.attach();
  const lyre_addr remote = address("10.9.0.2:5000");
  lyre_session* session = nullptr;
  ASSERT_EQ(0, lyre_connect(context, nullptr, &remote, &session));
  const uint64_t cookie = daemon.take(0).body.open.cookie;
  daemon.tell(connected(cookie, {.index = 1, .generation = 1}), 1);
  lyre_poll(context, 0);
  daemon.tell(connecting(cookie, kSessionName), 0);
  EXPECT_EQ(0, lyre_poll(context, 0));
  EXPECT_EQ(LYRE_OPEN, lyre_state(session));
  lyre_close(session);
  EXPECT_EQ(1u, daemon.take(1).session.index);
  lyre_context_close(context);
}

TEST_F(SessionTest, ASessionClosedWhileItConnectsMayHaveItsHandshakeBehindIt) {
  const lyre_addr remote = address("10.9.0.2:5000");
  lyre_session* session = nullptr;
  ASSERT_EQ(0, lyre_connect(context_, nullptr, &remote, &session));
  const Submission entry = daemon_.take();
  lyre_close(session);
  EXPECT_FALSE(daemon_.try_take());
  daemon_.tell(connected(entry.body.open.cookie, kSessionName));
  lyre_poll(context_, 0);
  const Submission last = daemon_.take();
  EXPECT_EQ(Op::kAbort, last.op);
  EXPECT_EQ(kSessionName, last.session);
  daemon_.tell(ended(kSessionName, EndStatus::kAborted));
  lyre_poll(context_, 0);
  EXPECT_EQ(0u, next_event(context_).happened);
}

TEST_F(SessionTest, CopyingSendPutsBytesIntoTheArena) {
  lyre_session* session = open_session(daemon_, context_, kSessionName);
  const std::string text = "what the client wrote";
  EXPECT_EQ(static_cast<int64_t>(text.size()), lyre_send(session, text.data(), text.size()));
  EXPECT_EQ(text.size(), lyre_unacked_bytes(session));
  const Submission entry = daemon_.take();
  EXPECT_EQ(Op::kSend, entry.op);
  EXPECT_EQ(kSessionName, entry.session);
  EXPECT_EQ(0u, entry.body.send.region);
  ASSERT_EQ(text.size(), entry.body.send.bytes);
  EXPECT_EQ(0, memcmp(text.data(), daemon_.arena() + entry.body.send.offset, text.size()));
  EXPECT_EQ(LYRE_E_AGAIN, lyre_drain(context_, 0));
  daemon_.tell(send_done(kSessionName, 1));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  EXPECT_EQ(0u, lyre_unacked_bytes(session));
  EXPECT_EQ(0, lyre_drain(context_, 0));
  EXPECT_EQ(0u, lyre_next_sent(session));
  EXPECT_EQ(0, lyre_send(session, nullptr, 0));
}

TEST_F(SessionTest, BlocksComeBackInOrderWithTheirTags) {
  lyre_session* session = open_session(daemon_, context_, kSessionName);
  for (const uint64_t tag : {11, 0, 13}) {
    lyre_block block{};
    ASSERT_EQ(0, lyre_block_alloc(context_, 5000, &block));
    EXPECT_EQ(8192u, block.bytes);
    ASSERT_EQ(0, lyre_send_block(session, &block, 5000, tag));
  }
  daemon_.tell(send_done(kSessionName, 2));
  lyre_poll(context_, 0);
  EXPECT_EQ(11u, lyre_next_sent(session));
  EXPECT_EQ(0u, lyre_next_sent(session));
  EXPECT_EQ(5000u, lyre_unacked_bytes(session));
  daemon_.tell(send_done(kSessionName, 3));
  lyre_poll(context_, 0);
  EXPECT_EQ(13u, lyre_next_sent(session));
}

TEST_F(SessionTest, ALongSendIsAcknowledgedBitByBit) {
  lyre_session* session = open_session(daemon_, context_, kSessionName);
  lyre_block block{};
  ASSERT_EQ(0, lyre_block_alloc(context_, 5000, &block));
  for (int i = 0; i < 2; ++i) ASSERT_EQ(0, lyre_send_block(session, &block, 5000, 11));
  EXPECT_EQ(0u, lyre_rtt_min_us(session));
  EXPECT_EQ(0u, lyre_rto_us(session));
  daemon_.tell(send_done(kSessionName, 0, 2000));
  EXPECT_EQ(0, lyre_poll(context_, 0)) << "no send is finished";
  EXPECT_EQ(8000u, lyre_unacked_bytes(session));
  EXPECT_EQ(kRttMinUs, lyre_rtt_min_us(session));
  EXPECT_EQ(kRtoUs, lyre_rto_us(session));
  EXPECT_EQ(0, lyre_is_window_closed(session));
  channel::Completion closed = send_done(kSessionName, 0, 2000);
  closed.body.send_done.is_window_closed = 1;
  daemon_.tell(closed);
  EXPECT_EQ(0, lyre_poll(context_, 0)) << "no send is finished";
  EXPECT_EQ(1, lyre_is_window_closed(session));
  daemon_.tell(send_done(kSessionName, 1, 4999));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  EXPECT_EQ(0, lyre_is_window_closed(session));
  EXPECT_EQ(1u, lyre_unacked_bytes(session));
  daemon_.tell(send_done(kSessionName, 2));
  lyre_poll(context_, 0);
  EXPECT_EQ(0u, lyre_unacked_bytes(session));
}

TEST_F(SessionTest, RefusesBlocksThatAreNone) {
  lyre_session* session = open_session(daemon_, context_, kSessionName);
  lyre_block block{};
  EXPECT_EQ(LYRE_E_INVALID, lyre_block_alloc(context_, 0, &block));
  EXPECT_EQ(LYRE_E_INVALID, lyre_block_alloc(context_, (4u << 20) + 1, &block));
  ASSERT_EQ(0, lyre_block_alloc(context_, 4096, &block));
  EXPECT_EQ(LYRE_E_INVALID, lyre_send_block(session, &block, 4097, 0));
  EXPECT_EQ(LYRE_E_INVALID, lyre_send_block(session, &block, 0, 0));
  lyre_block_free(context_, &block);
  EXPECT_EQ(LYRE_E_INVALID, lyre_send_block(session, &block, 1, 0));
  int elsewhere = 0;
  const lyre_block stranger{&elsewhere, sizeof elsewhere};
  EXPECT_EQ(LYRE_E_INVALID, lyre_send_block(session, &stranger, 1, 0));
  EXPECT_FALSE(daemon_.try_take());
}

TEST(Sessions, AFullRingIsToldAndItsRoomIsNews) {
  FakeDaemon daemon({.arena_bytes = 16u << 20});
  lyre_context* context = daemon.attach();
  std::vector<lyre_session*> sessions;
  for (uint32_t i = 0; i < 8; ++i) {
    sessions.push_back(open_session(daemon, context, {.index = i, .generation = 1}));
  }
  for (uint32_t i = 0; i < channel::kSubmissionEntries; ++i) {
    ASSERT_EQ(1, lyre_send(sessions[i % 8], "x", 1)) << lyre_last_error();
  }
  EXPECT_EQ(LYRE_E_AGAIN, lyre_send(sessions[0], "x", 1));
  EXPECT_STREQ("the worker's submission ring is full", lyre_last_error());
  EXPECT_EQ(0, lyre_poll(context, 0));
  // What must not be lost waits here, behind the full ring.
  lyre_shutdown(sessions[0]);
  lyre_abort(sessions[1]);
  for (uint32_t i = 0; i < channel::kSubmissionEntries; ++i) {
    ASSERT_EQ(Op::kSend, daemon.take().op);
  }
  EXPECT_EQ(1, lyre_poll(context, 0));  // there is room again
  EXPECT_EQ(Op::kShutdown, daemon.take().op);
  EXPECT_EQ(Op::kAbort, daemon.take().op);
  lyre_context_close(context);
}

TEST_F(SessionTest, ReceivesSlicesInOrderAndGivesThemBack) {
  lyre_session* session = open_session(daemon_, context_, kSessionName);
  memcpy(daemon_.pool(), "helloworld!", 11);
  daemon_.tell(data(kSessionName, {{.slot = 5, .bytes = 5, .offset = 0},
                                   {.slot = 6, .bytes = 5, .offset = 5},
                                   {.slot = 9, .bytes = 1, .offset = 10}}));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  EXPECT_EQ(11u, lyre_readable_bytes(session));
  lyre_slice slices[2];
  ASSERT_EQ(2, lyre_recv_slices(session, slices, 2));
  EXPECT_EQ(0, memcmp("hello", slices[0].data, slices[0].bytes));
  EXPECT_EQ(0, memcmp("world", slices[1].data, slices[1].bytes));
  lyre_slice last;
  ASSERT_EQ(1, lyre_recv_slices(session, &last, 1));
  EXPECT_EQ(LYRE_E_AGAIN, lyre_recv_slices(session, &last, 1));
  lyre_release(session, &slices[1], 1);
  Submission entry = daemon_.take();
  EXPECT_EQ(Op::kRelease, entry.op);
  ASSERT_EQ(1, entry.count);
  EXPECT_EQ(6u, entry.body.release.slots[0]);
  lyre_release(session, slices, 2);  // the second one is back already: once is enough
  entry = daemon_.take();
  ASSERT_EQ(1, entry.count);
  EXPECT_EQ(5u, entry.body.release.slots[0]);
  lyre_close(session);  // gives back what the user still held
  entry = daemon_.take();
  EXPECT_EQ(Op::kRelease, entry.op);
  EXPECT_EQ(9u, entry.body.release.slots[0]);
  EXPECT_EQ(Op::kClose, daemon_.take().op);
}

TEST_F(SessionTest, CopyingReceiveSplitsSlicesAndBatchesReleases) {
  lyre_session* session = open_session(daemon_, context_, kSessionName);
  memcpy(daemon_.pool(), "abcdefghijkl", 12);
  for (uint32_t i = 0; i < 12; ++i) {
    daemon_.tell(data(kSessionName, {{.slot = 100 + i, .bytes = 1, .offset = i}}));
  }
  lyre_poll(context_, 0);
  char out[16] = "";
  EXPECT_EQ(5, lyre_recv(session, out, 5));
  EXPECT_EQ(7, lyre_recv(session, out + 5, sizeof out - 5));
  EXPECT_STREQ("abcdefghijkl", out);
  EXPECT_EQ(10, daemon_.take().count);
  const Submission rest = daemon_.take();
  EXPECT_EQ(2, rest.count);
  EXPECT_EQ(111u, rest.body.release.slots[1]);
  daemon_.tell(data(kSessionName, {{.slot = 1, .bytes = 8, .offset = 0}}));
  lyre_poll(context_, 0);
  EXPECT_EQ(3, lyre_recv(session, out, 3));
  lyre_slice slice;
  ASSERT_EQ(1, lyre_recv_slices(session, &slice, 1));
  EXPECT_EQ(5u, slice.bytes);
  EXPECT_EQ(0, memcmp("defgh", slice.data, 5));
}

TEST_F(SessionTest, WhatWasCopiedIsToldOnceWithTheReleasesOfItsSession) {
  constexpr SessionName kOther{.index = 9, .generation = 1};
  lyre_session* session = open_session(daemon_, context_, kSessionName);
  lyre_session* other = open_session(daemon_, context_, kOther);
  daemon_.tell(data(kSessionName, {{.slot = 1, .bytes = 4, .offset = 0}, {.slot = 2, .bytes = 6}}));
  daemon_.tell(data(kOther, {{.slot = 3, .bytes = 8, .offset = 0}, {.slot = 4, .bytes = 8}}));
  lyre_poll(context_, 0);
  char out[16];
  EXPECT_EQ(7, lyre_recv(session, out, 7));  // slot 1, and half of slot 2
  EXPECT_EQ(8, lyre_recv(other, out, 8));
  EXPECT_EQ(3, lyre_recv(session, out, sizeof out));
  lyre_slice slice;
  ASSERT_EQ(1, lyre_recv_slices(other, &slice, 1));
  lyre_count_copied(other, 0, 5);
  lyre_release(other, &slice, 1);
  const auto expect_told = [&](SessionName name, uint32_t slot, uint32_t copied_bytes) {
    const Submission entry = daemon_.take();
    EXPECT_EQ(Op::kRelease, entry.op);
    EXPECT_EQ(name, entry.session);
    ASSERT_EQ(1, entry.count);
    EXPECT_EQ(slot, entry.body.release.slots[0]);
    EXPECT_EQ(copied_bytes, entry.copied_bytes);
  };
  expect_told(kSessionName, 1, 4);
  expect_told(kOther, 3, 8);
  expect_told(kSessionName, 2, 6);
  expect_told(kOther, 4, 5);
}

TEST_F(SessionTest, CopiesTooManyForOneEntryAreToldByTheNext) {
  lyre_session* session = open_session(daemon_, context_, kSessionName);
  constexpr uint64_t kCopied = uint64_t{6} << 30;
  lyre_count_copied(session, kCopied, 0);
  uint64_t told = 0;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(1, lyre_send(session, "x", 1));
    told += daemon_.take().copied_bytes;
  }
  EXPECT_EQ(kCopied + 20, told);
}

TEST_F(SessionTest, EndOfStreamComesAfterTheBytes) {
  lyre_session* session = open_session(daemon_, context_, kSessionName);
  daemon_.tell(data(kSessionName, {{.slot = 1, .bytes = 4, .offset = 0}}));
  daemon_.tell(peer_finished(kSessionName));
  lyre_poll(context_, 0);
  char out[8];
  EXPECT_EQ(4, lyre_recv(session, out, sizeof out));
  EXPECT_EQ(0, lyre_recv(session, out, sizeof out));
  lyre_slice slice;
  EXPECT_EQ(0, lyre_recv_slices(session, &slice, 1));
  EXPECT_EQ(LYRE_OPEN, lyre_state(session));
}

TEST_F(SessionTest, AResetLeavesTheBytesThatCameBefore) {
  lyre_session* session = open_session(daemon_, context_, kSessionName);
  ASSERT_EQ(1, lyre_send(session, "x", 1));
  daemon_.tell(data(kSessionName, {{.slot = 1, .bytes = 4, .offset = 0}}));
  daemon_.tell(ended(kSessionName, EndStatus::kReset));
  lyre_poll(context_, 0);
  EXPECT_EQ(LYRE_ENDED, lyre_state(session));
  EXPECT_EQ(0u, lyre_unacked_bytes(session));
  char out[8];
  EXPECT_EQ(4, lyre_recv(session, out, sizeof out));
  EXPECT_EQ(LYRE_E_RESET, lyre_recv(session, out, sizeof out));
  EXPECT_EQ(LYRE_E_RESET, lyre_send(session, "x", 1));
}

TEST_F(SessionTest, OptionsAreCheckedAndSent) {
  lyre_session* session = open_session(daemon_, context_, kSessionName);
  EXPECT_EQ(0, lyre_set_option(session, LYRE_OPTION_KEEPALIVE_IDLE_MS, 5000));
  const auto entry = daemon_.take();
  EXPECT_EQ(Op::kSetOption, entry.op);
  EXPECT_EQ(lyre::channel::SessionOption::kKeepaliveIdleMs, entry.body.option.name);
  EXPECT_EQ(5000u, entry.body.option.value);
  EXPECT_EQ(LYRE_E_INVALID, lyre_set_option(session, LYRE_OPTION_USER_TIMEOUT_MS, 0));
  EXPECT_EQ(LYRE_E_INVALID, lyre_set_option(session, LYRE_OPTION_KEEPALIVE_PROBES, 128));
  EXPECT_EQ(LYRE_E_INVALID, lyre_set_option(session, LYRE_OPTION_DSCP, 64));
  EXPECT_EQ(LYRE_E_INVALID, lyre_set_option(session, LYRE_OPTION_HOP_LIMIT, 0));
  EXPECT_EQ(LYRE_E_INVALID, lyre_set_option(session, LYRE_OPTION_HOP_LIMIT, 256));
  EXPECT_FALSE(daemon_.try_take());
}

TEST_F(SessionTest, AnOrderlyEndIsNoError) {
  lyre_session* session = open_session(daemon_, context_, kSessionName);
  EXPECT_EQ(0, lyre_shutdown(session));
  EXPECT_EQ(0, lyre_shutdown(session));
  EXPECT_EQ(Op::kShutdown, daemon_.take().op);
  EXPECT_FALSE(daemon_.try_take());
  EXPECT_EQ(LYRE_E_NOTCONNECTED, lyre_send(session, "x", 1));
  daemon_.tell(peer_finished(kSessionName));
  daemon_.tell(ended(kSessionName));
  lyre_poll(context_, 0);
  EXPECT_EQ(LYRE_ENDED, lyre_state(session));
  EXPECT_EQ(0, lyre_session_error(session));
  char byte;
  EXPECT_EQ(0, lyre_recv(session, &byte, 1));
  lyre_close(session);
  EXPECT_FALSE(daemon_.try_take());
}

TEST_F(SessionTest, AClosedSessionsBlocksComeBackAtItsEnd) {
  lyre_session* session = open_session(daemon_, context_, kSessionName);
  lyre_block block{};
  ASSERT_EQ(0, lyre_block_alloc(context_, 1u << 20, &block));
  ASSERT_EQ(0, lyre_send_block(session, &block, 1000, 1));
  lyre_close(session);
  lyre_block next{};
  EXPECT_EQ(LYRE_E_AGAIN, lyre_block_alloc(context_, 1u << 20, &next));
  EXPECT_EQ(LYRE_E_AGAIN, lyre_drain(context_, 0));
  EXPECT_EQ(Op::kSend, daemon_.take().op);
  EXPECT_EQ(Op::kClose, daemon_.take().op);
  // Bytes that still arrive for it are released.
  daemon_.tell(data(kSessionName, {{.slot = 3, .bytes = 4, .offset = 0}}));
  daemon_.tell(ended(kSessionName));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  EXPECT_EQ(0u, next_event(context_).happened);
  EXPECT_EQ(0, lyre_block_alloc(context_, 1u << 20, &next));
  EXPECT_EQ(3u, daemon_.take().body.release.slots[0]);
}

// Nobody can ask it for its error any more.
TEST_F(SessionTest, WhatAClosedSessionLostIsToldOnceByADrain) {
  lyre_session* session = open_session(daemon_, context_, kSessionName);
  ASSERT_EQ(1, lyre_send(session, "x", 1));
  lyre_close(session);
  EXPECT_EQ(LYRE_E_AGAIN, lyre_drain(context_, 0));
  daemon_.tell(ended(kSessionName, EndStatus::kReset));
  EXPECT_EQ(LYRE_E_RESET, lyre_drain(context_, 0));
  EXPECT_EQ(0, lyre_drain(context_, 0));
}

// The session's end may wait behind bytes that nobody reads.
TEST_F(SessionTest, WhatAClosedSessionLostIsToldBeforeItsEnd) {
  lyre_session* session = open_session(daemon_, context_, kSessionName);
  ASSERT_EQ(1, lyre_send(session, "x", 1));
  lyre_close(session);
  daemon_.tell(send_done(kSessionName, 1, 0, EndStatus::kTimedOut));
  EXPECT_EQ(LYRE_E_TIMEDOUT, lyre_drain(context_, 0));
  daemon_.tell(ended(kSessionName, EndStatus::kTimedOut));
  EXPECT_EQ(0, lyre_drain(context_, 0));
}

TEST_F(SessionTest, WhatASessionLostBeforeItWasClosedIsToldByADrain) {
  lyre_session* session = open_session(daemon_, context_, kSessionName);
  ASSERT_EQ(1, lyre_send(session, "x", 1));
  daemon_.tell(send_done(kSessionName, 1, 0, EndStatus::kReset));
  EXPECT_EQ(0, lyre_drain(context_, 0));
  EXPECT_EQ(0, lyre_session_error(session));
  lyre_close(session);
  EXPECT_EQ(LYRE_E_RESET, lyre_drain(context_, 0));
}

TEST_F(SessionTest, ADrainTellsNoLossThatTheUserWantedOrCanAskFor) {
  constexpr SessionName kOther{.index = 8, .generation = 1};
  constexpr SessionName kThird{.index = 9, .generation = 1};
  lyre_session* aborted = open_session(daemon_, context_, kSessionName);
  lyre_session* open = open_session(daemon_, context_, kOther);
  lyre_session* acknowledged = open_session(daemon_, context_, kThird);
  for (lyre_session* session : {aborted, open, acknowledged}) {
    ASSERT_EQ(1, lyre_send(session, "x", 1));
  }
  lyre_abort(aborted);
  daemon_.tell(send_done(kSessionName, 1, 0, EndStatus::kAborted));
  daemon_.tell(ended(kSessionName, EndStatus::kAborted));
  daemon_.tell(send_done(kOther, 1, 0, EndStatus::kReset));
  daemon_.tell(ended(kOther, EndStatus::kReset));
  lyre_close(acknowledged);
  daemon_.tell(send_done(kThird, 1));
  daemon_.tell(ended(kThird, EndStatus::kReset));
  EXPECT_EQ(0, lyre_drain(context_, 0));
  EXPECT_EQ(LYRE_E_RESET, lyre_session_error(open));
}

TEST_F(SessionTest, StaleNamesAreIgnoredButTheirSlotsGoBack) {
  lyre_session* session = open_session(daemon_, context_, kSessionName);
  constexpr SessionName kStale{.index = 7, .generation = 2};
  constexpr SessionName kUnknown{.index = 4'000'000'000, .generation = 2};
  daemon_.tell(ended(kStale));
  daemon_.tell(ended(kUnknown));
  daemon_.tell(peer_finished(kStale));
  daemon_.tell(data(kStale, {{.slot = 8, .bytes = 4, .offset = 0}}));
  EXPECT_EQ(0, lyre_poll(context_, 0));
  EXPECT_EQ(LYRE_OPEN, lyre_state(session));
  EXPECT_EQ(0u, lyre_readable_bytes(session));
  EXPECT_EQ(8u, daemon_.take().body.release.slots[0]);
}

TEST_F(SessionTest, AnIndexIsUsedAgainUnderANewGeneration) {
  lyre_session* first = open_session(daemon_, context_, kSessionName);
  daemon_.tell(ended(kSessionName));
  lyre_poll(context_, 0);
  EXPECT_EQ(first, next_event(context_).session);
  constexpr SessionName kNext{.index = 7, .generation = 4};
  lyre_session* second = open_session(daemon_, context_, kNext);
  EXPECT_NE(first, second);
  lyre_close(first);
  daemon_.tell(peer_finished(kNext));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  EXPECT_EQ(second, next_event(context_).session);
}

TEST_F(SessionTest, ADaemonThatLiesEndsTheContext) {
  struct Lie {
    const char* what;
    channel::Completion entry;
  };
  const std::vector<Lie> lies = {
      {"more finished than sent", send_done(kSessionName, 2)},
      {"all of a send that is not finished", send_done(kSessionName, 0, 1)},
      {"some of a send that never was", send_done(kSessionName, 1, 1)},
      {"outside of the pool", data(kSessionName, {{.slot = 1, .bytes = 2, .offset = 65535}})},
      {"overflow", data(kSessionName, {{.slot = 1, .bytes = 9, .offset = UINT64_MAX - 3}})},
      {"no such pool", data(kSessionName, {{.slot = 1, .bytes = 1, .offset = 0}}, 1)},
      {"no copy area", data(kSessionName, {{.slot = 1, .bytes = 1, .offset = 4096}}, 0xff)},
      {"a taken name", accepted(1, kSessionName)},
      {"an absurd index", accepted(1, {.index = 1u << 31, .generation = 1})},
      {"an unasked connection", connected(999, {.index = 9, .generation = 1})},
      {"an unknown event", {.event = static_cast<channel::Event>(77)}},
  };
  for (const Lie& lie : lies) {
    FakeDaemon daemon;
    lyre_context* context = daemon.attach();
    lyre_session* session = open_session(daemon, context, kSessionName);
    ASSERT_EQ(1, lyre_send(session, "x", 1));
    daemon.tell(lie.entry);
    EXPECT_EQ(LYRE_E_DAEMON, lyre_poll(context, 0)) << lie.what;
    lyre_context_close(context);
  }
}

TEST_F(SessionTest, RingsTheDoorbellOfASleepingWorkerOnly) {
  lyre_session* session = open_session(daemon_, context_, kSessionName);
  lyre_send(session, "x", 1);
  EXPECT_EQ(0u, daemon_.rings_heard());
  daemon_.fall_asleep();
  lyre_send(session, "x", 1);
  EXPECT_EQ(1u, daemon_.rings_heard());
}

TEST_F(SessionTest, ClosingTheContextClosesInOrder) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  lyre_session* session = open_session(daemon, context, kSessionName);
  lyre_send(session, "x", 1);
  lyre_context_close(context);
  EXPECT_EQ(Op::kSend, daemon.take().op);
  EXPECT_EQ(Op::kClose, daemon.take().op);
}

TEST(Sessions, GoRoundTheWorkers) {
  FakeDaemon daemon({.worker_count = 3});
  lyre_context* context = daemon.attach();
  for (uint32_t i = 0; i < 6; ++i) {
    open_session(daemon, context, {.index = i / 3, .generation = 1}, i % 3);
  }
  lyre_context_close(context);
}

TEST(Sessions, CopiedPayloadLiesInTheContext) {
  FakeDaemon daemon({.lends = false});
  lyre_context* context = daemon.attach();
  lyre_session* session = open_session(daemon, context, kSessionName);
  const uint64_t offset = daemon.layout().copy_offset + 4096;
  memcpy(daemon.memory() + offset, "copy", 4);
  constexpr uint32_t kCopySlot = 0x8000'0001;
  daemon.tell(data(kSessionName, {{.slot = kCopySlot, .bytes = 4, .offset = offset}},
                   channel::kPoolContext));
  lyre_poll(context, 0);
  char out[4];
  ASSERT_EQ(4, lyre_recv(session, out, 4));
  EXPECT_EQ(0, memcmp("copy", out, 4));
  EXPECT_EQ(kCopySlot, daemon.take().body.release.slots[0]);
  lyre_context_close(context);
}

}  // namespace
}  // namespace lyre::client
