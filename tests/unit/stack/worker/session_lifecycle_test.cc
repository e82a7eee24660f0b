#include "stack/worker/session_lifecycle.h"

#include <gtest/gtest.h>

#include "tests/unit/stack/worker/worker_parts.h"

namespace lyre::worker {
namespace {

using channel::EndStatus;

class SessionLifecycleTest : public WorkerParts {
 protected:
  SessionLifecycleTest() { attach(); }
  EndStatus try_open(const Endpoint& local, const Endpoint& remote) {
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
  EXPECT_EQ(try_open({}, {IpAddress::v4(0xc0000201), 80}), EndStatus::kUnreachable);
  EXPECT_EQ(try_open({}, {kPeer.address, 0}), EndStatus::kUnreachable);
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

TEST_F(SessionLifecycleTest, PortsOfOpensAreInTheConfiguredRangeAndFree) {
  const auto port = lifecycle.choose_port(kOwn, kPeer);
  ASSERT_TRUE(port.has_value());
  EXPECT_GE(*port, state.config.ephemeral_port_first);
  EXPECT_LE(*port, state.config.ephemeral_port_last);
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

}  // namespace
}  // namespace lyre::worker
