#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <future>
#include <thread>

#include "libclient/context.h"
#include "tests/unit/libclient/fake_daemon.h"

namespace lyre::client {
namespace {

using channel::EndStatus;
using channel::Op;
using channel::Submission;

/// Answers one kListen on each worker: `status` of each, the port chosen by the first.
std::future<void> answer_listens(FakeDaemon& daemon, std::vector<EndStatus> statuses) {
  return std::async(std::launch::async, [&daemon, statuses] {
    for (uint32_t worker = 0; worker < statuses.size(); ++worker) {
      const Submission entry = daemon.take(worker);
      EXPECT_EQ(Op::kListen, entry.op);
      const uint16_t port = entry.body.open.local_port;
      if (worker > 0) {
        EXPECT_NE(0, port);
      }
      const uint64_t cookie = entry.body.open.cookie;
      if (statuses[worker] == EndStatus::kOk) {
        const channel::SessionName name{.index = 0x8000'0000 | worker, .generation = 5};
        daemon.tell(listening(cookie, name, port == 0 ? 40'000 : port), worker);
      } else {
        daemon.tell(listen_failed(cookie, statuses[worker]), worker);
      }
    }
  });
}

class ListenTest : public ::testing::Test {
 protected:
  ~ListenTest() override { lyre_context_close(context_); }

  lyre_listener* listen(const char* text) {
    auto answers = answer_listens(daemon_, {EndStatus::kOk, EndStatus::kOk});
    const lyre_addr local = address(text);
    lyre_listener* listener = nullptr;
    EXPECT_EQ(0, lyre_listen(context_, &local, kBacklog, &listener)) << lyre_last_error();
    answers.get();
    return listener;
  }
  /// A connection of the first worker that sends four bytes and has ended before it is accepted.
  void come_and_end(uint32_t number, EndStatus status) {
    const channel::SessionName name{.index = 1, .generation = number};
    daemon_.tell(accepted(kCookie, name));
    daemon_.tell(data(name, {{.slot = number, .bytes = 4, .offset = 0}}));
    daemon_.tell(ended(name, status));
    lyre_poll(context_, 0);
  }
  static std::vector<lyre_session*> accept_all(lyre_listener* listener) {
    std::vector<lyre_session*> all;
    lyre_session* session = nullptr;
    while (lyre_accept(listener, &session) == 0) all.push_back(session);
    return all;
  }
  /// Receive slots that the client has given back to the first worker since the last call.
  uint32_t count_released() {
    uint32_t count = 0;
    while (const auto entry = daemon_.try_take(0)) {
      if (entry->op == Op::kRelease) count += entry->count;
    }
    return count;
  }
  static constexpr uint32_t kWorkers = 2;
  static constexpr int kBacklog = 16;
  /// Sessions that wait for lyre_accept(): a backlog of n takes n + 1.
  static constexpr uint32_t kUnacceptedMax = kWorkers * (kBacklog + 1);
  /// The cookie of the only listener so far.
  static constexpr uint64_t kCookie = 1;

  FakeDaemon daemon_{{.worker_count = kWorkers}};
  lyre_context* context_ = daemon_.attach();
};

TEST_F(ListenTest, ListensOnEveryWorkerWithThePortOfTheFirst) {
  lyre_listener* listener = listen(":0");
  lyre_addr at{};
  EXPECT_EQ(0, lyre_listener_addr(listener, &at));
  EXPECT_EQ(40'000, at.port);
  lyre_close_listener(listener);
  for (uint32_t worker = 0; worker < 2; ++worker) {
    const Submission entry = daemon_.take(worker);
    EXPECT_EQ(Op::kCloseListen, entry.op);
    EXPECT_EQ(0x8000'0000 | worker, entry.session.index);
  }
}

TEST_F(ListenTest, OneRefusalUndoesTheRest) {
  auto answers = answer_listens(daemon_, {EndStatus::kOk, EndStatus::kAddressInUse});
  const lyre_addr local = address(":5000");
  lyre_listener* listener = nullptr;
  EXPECT_EQ(LYRE_E_ADDRINUSE, lyre_listen(context_, &local, 16, &listener));
  EXPECT_EQ(nullptr, listener);
  EXPECT_NE(nullptr, strstr(lyre_last_error(), ":5000"));
  answers.get();
  EXPECT_EQ(Op::kCloseListen, daemon_.take(0).op);
  EXPECT_FALSE(daemon_.try_take(1));
}

TEST_F(ListenTest, AChosenPortThatIsTakenElsewhereIsChosenAgain) {
  auto answers = std::async(std::launch::async, [this] {
    answer_listens(daemon_, {EndStatus::kOk, EndStatus::kAddressInUse}).get();
    EXPECT_EQ(Op::kCloseListen, daemon_.take(0).op);
    answer_listens(daemon_, {EndStatus::kOk, EndStatus::kOk}).get();
  });
  const lyre_addr local = address(":0");
  lyre_listener* listener = nullptr;
  EXPECT_EQ(0, lyre_listen(context_, &local, 16, &listener));
  answers.get();
}

TEST_F(ListenTest, TheFirstWorkerDecidesAlone) {
  auto answers = answer_listens(daemon_, {EndStatus::kAddressUnknown});
  const lyre_addr local = address("1.2.3.4:5000");
  lyre_listener* listener = nullptr;
  EXPECT_EQ(LYRE_E_ADDRNOTAVAIL, lyre_listen(context_, &local, 16, &listener));
  answers.get();
  EXPECT_FALSE(daemon_.try_take(0));
  EXPECT_FALSE(daemon_.try_take(1));
}

TEST_F(ListenTest, WhatADomainMayNotDoIsSaid) {
  auto answers = answer_listens(daemon_, {EndStatus::kForbidden});
  const lyre_addr local = address(":80");
  lyre_listener* listener = nullptr;
  EXPECT_EQ(LYRE_E_UNREACHABLE, lyre_listen(context_, &local, 16, &listener));
  answers.get();
  EXPECT_STREQ(
      "cannot listen on 0.0.0.0:80: the domain of this client may not listen on that address and "
      "port",
      lyre_last_error());
}

TEST(ListenPatience, AnAnswerThatComesTooLateIsUndone) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach(1000);
  const lyre_addr local = address(":5000");
  lyre_listener* listener = nullptr;
  EXPECT_EQ(LYRE_E_DAEMON, lyre_listen(context, &local, 16, &listener));
  EXPECT_STREQ("the daemon did not answer within 1 seconds", lyre_last_error());
  const Submission entry = daemon.take(0);
  daemon.tell(listening(entry.body.open.cookie, {.index = 0x8000'0003, .generation = 1}, 5000));
  lyre_poll(context, 0);
  const Submission undo = daemon.take(0);
  EXPECT_EQ(Op::kCloseListen, undo.op);
  EXPECT_EQ(0x8000'0003, undo.session.index);
  lyre_context_close(context);
}

// The worker takes both requests in one turn: the first one has the address.
TEST(ListenPatience, ARetryIsNotRefusedBecauseOfTheCallThatGaveUp) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach(2500);
  const lyre_addr local = address(":5000");
  lyre_listener* listener = nullptr;
  ASSERT_EQ(LYRE_E_DAEMON, lyre_listen(context, &local, 16, &listener));
  auto worker = std::async(std::launch::async, [&daemon] {
    const uint64_t first = daemon.take().body.open.cookie;
    const uint64_t second = daemon.take().body.open.cookie;
    daemon.tell(listening(first, {.index = 0x8000'0003, .generation = 1}, 5000));
    daemon.tell(listen_failed(second, EndStatus::kAddressInUse));
    const Submission undo = daemon.take();
    EXPECT_EQ(Op::kCloseListen, undo.op);
    EXPECT_EQ(0x8000'0003, undo.session.index);
    const Submission third = daemon.take();
    EXPECT_EQ(Op::kListen, third.op);
    const uint64_t cookie = third.body.open.cookie;
    daemon.tell(listening(cookie, {.index = 0x8000'0003, .generation = 2}, 5000));
  });
  EXPECT_EQ(0, lyre_listen(context, &local, 16, &listener)) << lyre_last_error();
  worker.get();
  lyre_context_close(context);
}

TEST(ListenPatience, ALateAnswerCountsAsLongAsThePatienceLasts) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach(60'000);
  auto answer = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    const Submission entry = daemon.take(0);
    daemon.tell(listening(entry.body.open.cookie, {.index = 0x8000'0003, .generation = 1}, 5000));
  });
  const lyre_addr local = address(":5000");
  lyre_listener* listener = nullptr;
  EXPECT_EQ(0, lyre_listen(context, &local, 16, &listener)) << lyre_last_error();
  answer.get();
  lyre_context_close(context);
}

TEST_F(ListenTest, AcceptsFromEveryWorker) {
  lyre_listener* listener = listen(":5000");
  lyre_session* session = nullptr;
  EXPECT_EQ(LYRE_E_AGAIN, lyre_accept(listener, &session));
  for (uint32_t worker = 0; worker < 2; ++worker) {
    daemon_.tell(accepted(kCookie, {.index = 1, .generation = 1}), worker);
  }
  EXPECT_EQ(1, lyre_poll(context_, 0));
  const lyre_event event = next_event(context_);
  EXPECT_EQ(nullptr, event.session);
  EXPECT_EQ(listener, event.listener);
  EXPECT_EQ(LYRE_EVENT_ACCEPTABLE, event.happened);
  EXPECT_EQ(0u, next_event(context_).happened);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(0, lyre_accept(listener, &session));
    EXPECT_EQ(LYRE_OPEN, lyre_state(session));
  }
  EXPECT_EQ(LYRE_E_AGAIN, lyre_accept(listener, &session));
}

TEST_F(ListenTest, WhatArrivedBeforeTheAcceptIsNewsAfterIt) {
  lyre_listener* listener = listen(":5000");
  const channel::SessionName name{.index = 1, .generation = 1};
  daemon_.tell(accepted(kCookie, name));
  daemon_.tell(data(name, {{.slot = 1, .bytes = 4, .offset = 0}}));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  EXPECT_EQ(listener, next_event(context_).listener);
  lyre_session* session = nullptr;
  ASSERT_EQ(0, lyre_accept(listener, &session));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  const lyre_event event = next_event(context_);
  EXPECT_EQ(session, event.session);
  EXPECT_EQ(LYRE_EVENT_DATA, event.happened);
  EXPECT_EQ(4u, lyre_readable_bytes(session));
}

TEST_F(ListenTest, TheBacklogOfEveryWorkerIsAccepted) {
  lyre_listener* listener = listen(":5000");
  for (uint32_t i = 0; i < kUnacceptedMax; ++i) {
    daemon_.tell(accepted(kCookie, {.index = i, .generation = 1}), i % kWorkers);
  }
  lyre_poll(context_, 0);
  EXPECT_EQ(kUnacceptedMax, accept_all(listener).size());
  for (uint32_t worker = 0; worker < kWorkers; ++worker) EXPECT_FALSE(daemon_.try_take(worker));
}

TEST_F(ListenTest, OneWorkerMayUseTheBacklogOfAll) {
  lyre_listener* listener = listen(":5000");
  for (uint32_t i = 0; i <= kUnacceptedMax; ++i) {
    daemon_.tell(accepted(kCookie, {.index = i, .generation = 1}));
  }
  lyre_poll(context_, 0);
  const Submission entry = daemon_.take(0);
  EXPECT_EQ(Op::kAbort, entry.op);
  EXPECT_EQ(kUnacceptedMax, entry.session.index);
  EXPECT_FALSE(daemon_.try_take(0));
  EXPECT_EQ(kUnacceptedMax, accept_all(listener).size());
}

TEST_F(ListenTest, UnacceptedSessionsThatEndedCountInTheBacklog) {
  constexpr uint32_t kBeyond = 66;
  lyre_listener* listener = listen(":5000");
  for (uint32_t i = 1; i <= kUnacceptedMax + kBeyond; ++i) come_and_end(i, EndStatus::kOk);
  EXPECT_EQ(kUnacceptedMax, context_->sessions().size());
  EXPECT_EQ(kBeyond, count_released());
  const std::vector<lyre_session*> all = accept_all(listener);
  EXPECT_EQ(kUnacceptedMax, all.size());
  for (lyre_session* session : all) EXPECT_EQ(4u, lyre_readable_bytes(session));
  come_and_end(kUnacceptedMax + kBeyond + 1, EndStatus::kOk);
  EXPECT_EQ(1u, accept_all(listener).size());
}

TEST_F(ListenTest, UnacceptedSessionsThatWereResetAreDropped) {
  constexpr uint32_t kCount = 100;
  lyre_listener* listener = listen(":5000");
  for (uint32_t i = 1; i <= kCount; ++i) come_and_end(i, EndStatus::kReset);
  EXPECT_EQ(0u, context_->sessions().size());
  EXPECT_EQ(kCount, count_released());
  EXPECT_EQ(0u, next_event(context_).happened);
  EXPECT_TRUE(accept_all(listener).empty());
}

TEST_F(ListenTest, ResetOfOneUnacceptedSessionKeepsTheOthers) {
  lyre_listener* listener = listen(":5000");
  for (uint32_t i = 1; i <= 3; ++i) {
    daemon_.tell(accepted(kCookie, {.index = i, .generation = 1}));
  }
  daemon_.tell(ended({.index = 2, .generation = 1}, EndStatus::kReset));
  lyre_poll(context_, 0);
  EXPECT_EQ(listener, next_event(context_).listener);
  const std::vector<lyre_session*> all = accept_all(listener);
  ASSERT_EQ(2u, all.size());
  EXPECT_EQ(1u, all[0]->name.index);
  EXPECT_EQ(3u, all[1]->name.index);
}

TEST_F(ListenTest, ClosingTheListenerAbortsWhoWaits) {
  lyre_listener* listener = listen(":5000");
  const channel::SessionName waiting{.index = 1, .generation = 1};
  const channel::SessionName late{.index = 2, .generation = 1};
  daemon_.tell(accepted(kCookie, waiting));
  lyre_poll(context_, 0);
  lyre_close_listener(listener);
  EXPECT_EQ(Op::kCloseListen, daemon_.take(0).op);
  Submission entry = daemon_.take(0);
  EXPECT_EQ(Op::kAbort, entry.op);
  EXPECT_EQ(waiting, entry.session);
  daemon_.tell(accepted(kCookie, late));
  lyre_poll(context_, 0);
  entry = daemon_.take(0);
  EXPECT_EQ(Op::kAbort, entry.op);
  EXPECT_EQ(late, entry.session);
  daemon_.tell(ended(late, EndStatus::kAborted));
  daemon_.tell(ended(waiting, EndStatus::kAborted));
  lyre_poll(context_, 0);
  EXPECT_EQ(0u, next_event(context_).happened);
}

TEST_F(ListenTest, ADeadDaemonEndsTheWait) {
  auto death = std::async(std::launch::async, [this] {
    daemon_.take(0);
    daemon_.hang_up();
  });
  const lyre_addr local = address(":5000");
  lyre_listener* listener = nullptr;
  EXPECT_EQ(LYRE_E_DAEMON, lyre_listen(context_, &local, 16, &listener));
  EXPECT_NE(nullptr, strstr(lyre_last_error(), "hung up"));
  death.get();
}

}  // namespace
}  // namespace lyre::client
