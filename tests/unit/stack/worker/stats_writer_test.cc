#include "stack/worker/stats_writer.h"

#include <gtest/gtest.h>

#include "stack/session/session.h"
#include "stack/worker/session_view.h"
#include "stack/worker/turn_limits.h"
#include "tests/unit/stack/worker/worker_parts.h"

namespace lyre::worker {
namespace {

class StatsWriterTest : public WorkerParts {
 protected:
  static constexpr uint32_t kRows = kConnectionsMax + 2;

  StatsWriterTest() {
    state.stats.rows = rows;
    state.stats.clients = clients;
    attach();
  }
  /// A pass over all rows takes several turns.
  void write_all() {
    stats_writer.after_turn(1);
    write_rest();
  }
  void write_rest() {
    for (int i = 0; i < 100 && stats_writer.next_deadline() <= state.now; ++i) {
      stats_writer.after_turn(0);
    }
  }
  bool is_shown(uint32_t row) {
    channel::SessionView view{};
    return rows[row].read(view);
  }
  /// So many neighbours that a pass needs a second turn.
  void lengthen_pass() {
    state.stats.neighbours = neighbours;
    for (uint32_t host = 0; host <= kNeighboursShownPerPollMax; ++host) {
      static_cast<void>(state.neighbours.resolve(0, IpAddress::v4(0x0a090010 + host), state.now));
    }
  }
  void release(uint32_t conn) {
    lifecycle.forget_context(conn);
    lifecycle.end_silently(conn);
    ASSERT_FALSE(state.engine.is_open(conn));
  }
  /// A listener, and the number of its row.
  uint32_t add_listener(uint16_t port) {
    const uint32_t index = state.listeners.add({.local = {kOwn, port}, .context = kContext});
    stats_writer.write_listener_row(index);
    return index;
  }

  std::vector<channel::SessionRow> rows{kRows};
  std::vector<channel::ClientRow> clients{4};
  std::vector<channel::NeighbourRow> neighbours{2 * kNeighboursShownPerPollMax};
};

TEST_F(StatsWriterTest, TurnsAreCountedAndThoseWithWorkAlsoAsBusy) {
  stats_writer.after_turn(0);
  stats_writer.after_turn(3);
  EXPECT_EQ(stats.polls.get(), 2u);
  EXPECT_EQ(stats.busy_polls.get(), 1u);
}

TEST_F(StatsWriterTest, APassShowsTheSessionsAndTheClients) {
  const uint32_t conn = open();
  write_all();
  channel::SessionView session{};
  ASSERT_TRUE(rows[conn].read(session));
  EXPECT_EQ(session.remote_port, kPeer.port);
  channel::ClientView client{};
  ASSERT_TRUE(clients[kContext].read(client));
  EXPECT_EQ(client.sessions, 1u);
  EXPECT_EQ(stats.sessions_open.get(), 1u);
}

TEST_F(StatsWriterTest, AClientIsShownWithItsMemoryAndItsLimits) {
  Command& attached = state.contexts[kContext].attached;
  attached.uid = 7;
  attached.limits = {.contexts_of_user = 5, .registered_bytes_of_user = 1 << 30, .regions = 9};
  DomainRules rules;
  rules.sessions_max = 3;
  rules.has_account = true;
  rules.index = 2;
  attached.domain = &rules;
  const uint8_t bytes[100] = {};
  state.client_memory.add(kContextsMax + 1, kContext, bytes, 60);
  state.client_memory.add(kContextsMax + 2, kContext, bytes, 40);
  write_all();
  channel::ClientView view{};
  ASSERT_TRUE(clients[kContext].read(view));
  EXPECT_EQ(view.arena_bytes, attached.memory_bytes);
  EXPECT_GT(view.arena_bytes, kArenaBytes) << "rings count, too";
  EXPECT_EQ(view.regions, 2u);
  EXPECT_EQ(view.regions_max, 9u);
  EXPECT_EQ(view.registered_bytes, 100u);
  EXPECT_EQ(view.user, (uint64_t{1} << 32) + 2);
  EXPECT_EQ(view.user_contexts_max, 5u);
  EXPECT_EQ(view.user_registered_bytes_max, 1u << 30);
  EXPECT_EQ(view.sessions_max, 3u);
  EXPECT_EQ(view.user_sessions_max, 3u);
  state.client_memory.remove(kContextsMax + 1);
  EXPECT_EQ(state.client_memory.registered_bytes_of(kContext), 40u);
  attached.domain = nullptr;
}

TEST_F(StatsWriterTest, TheNextPassIsDueAfterThePeriodWhenSomethingChanged) {
  EXPECT_EQ(stats_writer.next_deadline(), kNever);
  write_all();
  EXPECT_EQ(stats_writer.next_deadline(), kNever) << "nothing changed since";
  const uint32_t conn = open();
  stats_writer.after_turn(1);
  EXPECT_EQ(stats_writer.next_deadline(), state.now + kStatsPeriod);
  EXPECT_FALSE(is_shown(conn));
  state.now += kStatsPeriod;
  write_all();
  EXPECT_TRUE(is_shown(conn));
}

// A session that changed after its row was written was shown as it was before, for as long as the
// worker was idle.
TEST_F(StatsWriterTest, WorkDuringAPassIsShownByTheNextOne) {
  lengthen_pass();
  const uint32_t conn = open();
  stats_writer.after_turn(1);
  ASSERT_TRUE(is_shown(conn));
  ASSERT_LE(stats_writer.next_deadline(), state.now) << "the pass is not complete";
  state.session(conn).copied_tx_bytes = 7;
  stats_writer.after_turn(1);
  write_rest();
  ASSERT_EQ(stats_writer.next_deadline(), state.now + kStatsPeriod);
  state.now += kStatsPeriod;
  write_rest();
  channel::SessionView view{};
  ASSERT_TRUE(rows[conn].read(view));
  EXPECT_EQ(view.copied_tx_bytes, 7u);
  EXPECT_EQ(stats_writer.next_deadline(), kNever) << "nothing changed since";
}

TEST_F(StatsWriterTest, PacketsThatAPortDiscardsAreCounted) {
  link.close_driver(0);
  static_cast<void>(state.neighbours.resolve(0, kPeer.address, state.now));
  neighbourhood.run_timers();
  state.ports[0].begin_turn();
  state.ports[0].flush();
  write_all();
  EXPECT_GT(stats.tx_dropped.get(), 0u);
}

TEST_F(StatsWriterTest, ListenersHaveTheRowsBehindThoseOfTheConnections) {
  const uint32_t index = add_listener(5000);
  channel::SessionView view{};
  ASSERT_TRUE(rows[kConnectionsMax + index].read(view));
  EXPECT_EQ(view.is_listener, 1u);
  EXPECT_EQ(view.local_port, 5000u);
  state.listeners.remove(index);
  stats_writer.write_listener_row(index);
  EXPECT_FALSE(is_shown(kConnectionsMax + index));
}

TEST_F(StatsWriterTest, ListenersHaveRowsWhereNotAllConnectionsDo) {
  state.stats.connection_rows = 1;
  const uint32_t index = add_listener(5000);
  const uint32_t first = open();
  const uint32_t second = open();
  ASSERT_EQ(second, 1 + index) << "its number is that of the listener's row";
  write_all();
  EXPECT_TRUE(is_shown(first));
  channel::SessionView view{};
  ASSERT_TRUE(rows[1 + index].read(view));
  EXPECT_EQ(view.is_listener, 1u);
  state.stats.clear_row(second);
  EXPECT_TRUE(is_shown(1 + index));
  state.listeners.remove(index);
  stats_writer.write_listener_row(index);
  EXPECT_FALSE(is_shown(1 + index));
}

TEST_F(StatsWriterTest, ConnectionsWithoutARowAreCounted) {
  state.stats.connection_rows = 1;
  open();
  write_all();
  EXPECT_EQ(stats.sessions_without_row.get(), 0u);
  open();
  const uint32_t last = open();
  state.now += kStatsPeriod;
  write_all();
  EXPECT_EQ(stats.sessions_open.get(), 3u);
  EXPECT_EQ(stats.sessions_without_row.get(), 2u);
  state.now += kStatsPeriod;
  write_all();
  EXPECT_EQ(stats.sessions_without_row.get(), 2u) << "each pass counts anew";
  release(last);
  state.now += kStatsPeriod;
  write_all();
  EXPECT_EQ(stats.sessions_without_row.get(), 1u);
  invariants.check(UINT32_MAX);
}

// The rows that a pass had written were compared with the connections at its end.
TEST_F(StatsWriterTest, ConnectionsThatCloseDuringAPassHadRows) {
  state.stats.connection_rows = 2;
  lengthen_pass();
  open();
  const uint32_t closing = open();
  open();
  stats_writer.after_turn(1);
  ASSERT_TRUE(is_shown(closing));
  ASSERT_LE(stats_writer.next_deadline(), state.now) << "the pass is not complete";
  release(closing);
  write_rest();
  EXPECT_EQ(stats.sessions_open.get(), 2u);
  EXPECT_EQ(stats.sessions_without_row.get(), 1u);
}

TEST_F(StatsWriterTest, ASessionNamesTheContextOfItsOwner) {
  attach(1);
  channel::SessionView view{};
  show_owner(state, view, 1);
  EXPECT_EQ(view.context, 1u);
  show_owner(state, view, session::kNoContext);
  EXPECT_EQ(view.context, session::kNoContext);
}

TEST_F(StatsWriterTest, AClientThatIsGoneIsNotShown) {
  write_all();
  channel::ClientView view{};
  ASSERT_TRUE(clients[kContext].read(view));
  stats_writer.clear_client(kContext);
  EXPECT_FALSE(clients[kContext].read(view));
}

/// Two domains, each of which sees its own sessions only.
class StatsOfDomains : public StatsWriterTest {
 protected:
  StatsOfDomains() {
    state.stats.domain_rows = {of_first, of_second};
    rules.index = 1;
    state.contexts[kContext].attached.domain = &rules;
  }

  DomainRules rules;
  std::vector<channel::SessionRow> of_first{kRows};
  std::vector<channel::SessionRow> of_second{kRows};
};

TEST_F(StatsOfDomains, ASessionIsShownToItsOwnDomainOnly) {
  const uint32_t conn = open();
  write_all();
  channel::SessionView view{};
  EXPECT_TRUE(rows[conn].read(view));
  EXPECT_FALSE(of_first[conn].read(view));
  EXPECT_TRUE(of_second[conn].read(view));
}

}  // namespace
}  // namespace lyre::worker
