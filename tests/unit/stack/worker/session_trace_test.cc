#include "stack/worker/session_trace.h"

#include <gtest/gtest.h>

#include <vector>

#include "stack/tcp/congestion.h"
#include "tests/unit/stack/worker/worker_parts.h"

namespace lyre::worker {
namespace {

using channel::EndStatus;
using channel::TraceKind;

class SessionTraceTest : public WorkerParts {
 protected:
  SessionTraceTest() { attach(); }

  std::vector<TraceKind> kinds_of(uint32_t conn) const {
    std::array<channel::TraceEvent, channel::TraceRing::kEvents> events;
    const int64_t opened = state.sessions[conn].opened_at.value;
    const uint32_t count = traces[conn].read(opened, events);
    std::vector<TraceKind> kinds;
    for (uint32_t i = 0; i < count; ++i) kinds.push_back(events[i].kind);
    return kinds;
  }
  std::vector<channel::EndedView> kept() const {
    std::vector<channel::EndedView> out;
    for (const channel::EndedRow& row : ended) {
      channel::EndedView view;
      if (row.read(view)) out.push_back(view);
    }
    return out;
  }
  void forget(uint32_t conn) {
    lifecycle.forget_context(conn);
    lifecycle.release_if_done(conn);
  }
};

TEST_F(SessionTraceTest, BeginsWithTheOpenAndHasEachState) {
  learn_peer();
  const uint32_t conn = open();
  transmission.transmit();
  EXPECT_EQ(kinds_of(conn), (std::vector{TraceKind::kOpened, TraceKind::kState}));
}

// RFC 9293 3.7.1: 536 is assumed before the peer has answered, which says nothing of the peer.
TEST_F(SessionTraceTest, TheSegmentSizeIsToldWhenThePeerHasAnswered) {
  learn_peer();
  const uint32_t conn = open();
  std::array<channel::TraceEvent, channel::TraceRing::kEvents> events;
  ASSERT_GE(traces[conn].read(state.sessions[conn].opened_at.value, events), 1u);
  EXPECT_EQ(events[0].kind, TraceKind::kOpened);
  EXPECT_EQ(events[0].second, 0u);
}

// 5 GiB were shown as 1 GiB.
TEST(SessionTraceEvent, HasAsManyRetransmittedBytesAsItCan) {
  tcp::ConnectionInfo info;
  info.bytes_retransmitted = uint64_t{5} << 30;
  const auto event = event_of(tcp::Change::kRetransmitted, info, 1);
  EXPECT_EQ(event.kind, TraceKind::kRetransmitted);
  EXPECT_EQ(event.first, UINT32_MAX - 1) << "UINT32_MAX is shown as none";
}

TEST(SessionTraceEvent, HasNoSsthreshWhereTheOnlyReductionWasUndone) {
  tcp::ConnectionInfo info;
  info.ssthresh_bytes = tcp::kSsthreshUnset;
  const auto event = event_of(tcp::Change::kUndone, info, 1);
  EXPECT_EQ(event.kind, TraceKind::kUndone);
  EXPECT_EQ(event.second, UINT32_MAX);
}

TEST_F(SessionTraceTest, ASessionThatEndsBadlyIsKept) {
  const uint32_t conn = open();
  lifecycle.abort(conn, EndStatus::kTimedOut);
  const auto all = kept();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, static_cast<uint8_t>(EndStatus::kTimedOut));
  EXPECT_EQ(all[0].session.remote_port, kPeer.port);
  EXPECT_EQ(all[0].ended_unix_ns, state.now.value + state.config.unix_offset_ns);
  ASSERT_EQ(all[0].event_count, 3u);
  EXPECT_EQ(all[0].events[0].kind, TraceKind::kOpened);
  EXPECT_EQ(all[0].events[2].kind, TraceKind::kEnded);
}

TEST_F(SessionTraceTest, WhatTheClientEndsIsNotKept) {
  lifecycle.abort(open(), EndStatus::kAborted);
  lifecycle.abort(open(), EndStatus::kShutdown);
  EXPECT_TRUE(kept().empty());
}

TEST_F(SessionTraceTest, AttemptsToConnectPushOutNoConnection) {
  uint32_t conn = open();
  state.session(conn).was_announced = true;
  lifecycle.abort(conn, EndStatus::kReset);
  forget(conn);
  for (int i = 0; i < 20; ++i) {
    conn = open();
    lifecycle.abort(conn, EndStatus::kRefused);
    forget(conn);
  }
  const auto all = kept();
  ASSERT_EQ(all.size(), 3u);  // a quarter of eight for attempts
  EXPECT_EQ(all[0].status, static_cast<uint8_t>(EndStatus::kReset));
  EXPECT_EQ(all[1].status, static_cast<uint8_t>(EndStatus::kRefused));
}

TEST_F(SessionTraceTest, AnotherSessionInThePlaceBeginsAnew) {
  const uint32_t first = open();
  lifecycle.abort(first, EndStatus::kAborted);
  forget(first);
  state.now += millis(1);
  uint32_t second = UINT32_MAX;
  do {
    second = open();
  } while (second != first && !lifecycle.is_full());
  ASSERT_EQ(second, first);
  EXPECT_EQ(kinds_of(second), std::vector{TraceKind::kOpened});
}

TEST_F(SessionTraceTest, SegmentsThatAreNotUsedAreCounted) {
  const uint32_t conn = open();
  tcp::Effects effects;
  effects.drop = Drop::kTcpPaws;
  lifecycle.apply(conn, effects);
  lifecycle.apply(conn, effects);
  EXPECT_EQ(kinds_of(conn), (std::vector{TraceKind::kOpened, TraceKind::kDropped}));
}

// Nothing counted them. Connections without a ring count as well.
TEST_F(SessionTraceTest, TimeoutsAreCounted) {
  state.stats.traces = state.stats.traces.first(0);
  learn_peer();
  open();
  transmission.transmit();
  EXPECT_EQ(stats.tcp_timeouts.get(), 0u);
  const Nanos after_the_first = state.now + millis(1500);  // RFC 6298 2.1: 1 s, then 2 s
  while (state.now < after_the_first) {
    state.now += millis(5);
    lifecycle.run_timers();
    transmission.transmit();
  }
  EXPECT_EQ(stats.tcp_timeouts.get(), 1u);
}

// With a large tcp.connections_max such sessions left no row when they ended badly.
TEST_F(SessionTraceTest, AConnectionWithoutARingIsKeptWithoutEvents) {
  state.stats.traces = state.stats.traces.first(0);
  const uint32_t conn = open();
  lifecycle.abort(conn, EndStatus::kTimedOut);
  EXPECT_TRUE(kinds_of(conn).empty());
  const auto all = kept();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, static_cast<uint8_t>(EndStatus::kTimedOut));
  EXPECT_EQ(all[0].event_count, 0u);
}

TEST_F(SessionTraceTest, ConnectionsThatEndBadlyAreCountedByCause) {
  for (const auto status :
       {EndStatus::kTimedOut, EndStatus::kIcmpError, EndStatus::kNoNeighbour,
        EndStatus::kAddressLost, EndStatus::kNoResources, EndStatus::kDeregistered}) {
    const uint32_t conn = open();
    state.session(conn).was_announced = true;
    lifecycle.abort(conn, status);
    forget(conn);
  }
  EXPECT_EQ(stats.ended_timed_out.get(), 1u);
  EXPECT_EQ(stats.ended_icmp_error.get(), 1u);
  EXPECT_EQ(stats.ended_no_neighbour.get(), 1u);
  EXPECT_EQ(stats.ended_address_lost.get(), 1u);
  EXPECT_EQ(stats.ended_no_resources.get(), 1u);
  EXPECT_EQ(stats.ended_deregistered.get(), 1u);
  lifecycle.abort(open(), EndStatus::kTimedOut);
  EXPECT_EQ(stats.ended_timed_out.get(), 1u) << "an attempt to connect is counted as such";
}

}  // namespace
}  // namespace lyre::worker
