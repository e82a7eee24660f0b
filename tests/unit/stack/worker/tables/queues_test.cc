#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "stack/worker/tables/orphan_queue.h"
#include "stack/worker/tables/transmit_queue.h"

namespace lyre::worker {
namespace {

constexpr uint32_t kClients = 4;
constexpr uint32_t kSessions = 100;

/// Sessions of two clients, the first of which has all but the last one.
std::vector<session::Session> sessions_of_two(uint32_t count) {
  std::vector<session::Session> sessions(count);
  for (uint32_t i = 0; i < count; ++i) sessions[i].context = i + 1 < count ? 0 : 1;
  return sessions;
}

TEST(TransmitQueue, AClientsShareDoesNotDependOnTheNumberOfItsSessions) {
  std::vector<session::Session> sessions = sessions_of_two(65);
  TransmitQueue queue(sessions.data(), kSessions, kClients);
  for (uint32_t conn = 0; conn < 65; ++conn) queue.schedule(conn);
  std::array<uint64_t, 2> bytes{};
  for (int turn = 0; turn < 1000; ++turn) {  // all have always more to send
    const auto [conn, client] = queue.take();
    queue.schedule(conn);
    queue.charge(client, 60'000, 1);
    bytes.at(client) += 60'000;
  }
  EXPECT_NEAR(static_cast<double>(bytes[0]) / static_cast<double>(bytes[1]), 1, 0.1);
}

TEST(TransmitQueue, AClientWithWeightHasSoManySharesMore) {
  std::vector<session::Session> sessions = sessions_of_two(2);
  TransmitQueue queue(sessions.data(), kSessions, kClients);
  queue.set_weight(1, 3);
  for (uint32_t conn = 0; conn < 2; ++conn) queue.schedule(conn);
  std::array<uint64_t, 2> bytes{};
  for (int turn = 0; turn < 2000; ++turn) {
    const auto [conn, client] = queue.take();
    queue.schedule(conn);
    queue.charge(client, 60'000, 1);
    bytes.at(client) += 60'000;
  }
  EXPECT_NEAR(static_cast<double>(bytes[1]) / static_cast<double>(bytes[0]), 3, 0.2);
}

TEST(TransmitQueue, SharesAreOfBytesNotOfTurns) {
  std::vector<session::Session> sessions = sessions_of_two(2);
  TransmitQueue queue(sessions.data(), kSessions, kClients);
  queue.schedule(0);
  queue.schedule(1);
  std::array<uint64_t, 2> bytes{};
  for (int turn = 0; turn < 2000; ++turn) {
    const auto [conn, client] = queue.take();
    const uint64_t sent = client == 0 ? 250'000 : 20'000;
    queue.schedule(conn);
    queue.charge(client, sent, 1);
    bytes.at(client) += sent;
  }
  EXPECT_NEAR(static_cast<double>(bytes[0]) / static_cast<double>(bytes[1]), 1, 0.2);
}

// A peer can ask for a tiny MSS: packets to it cost the worker as much as others.
TEST(TransmitQueue, ManySmallPacketsCostMoreThanTheirBytes) {
  std::vector<session::Session> sessions = sessions_of_two(2);
  TransmitQueue queue(sessions.data(), kSessions, kClients);
  queue.schedule(0);
  queue.schedule(1);
  std::array<uint64_t, 2> packets{};
  for (int turn = 0; turn < 2000; ++turn) {
    const auto [conn, client] = queue.take();
    queue.schedule(conn);
    queue.charge(client, client == 0 ? 40 * 1448 : 40 * 64, 40);
    packets.at(client) += 40;
  }
  EXPECT_LT(packets[1], 4 * packets[0]);
}

TEST(TransmitQueue, ALoneClientHasEveryTurnAndLittleDebtAfterwards) {
  std::vector<session::Session> sessions = sessions_of_two(2);
  TransmitQueue queue(sessions.data(), kSessions, kClients);
  for (int turn = 0; turn < 100; ++turn) {
    queue.schedule(0);
    queue.charge(queue.take().client, 250'000, 1);
  }
  queue.schedule(0);
  queue.schedule(1);
  std::array<int, 2> turns{};
  for (int turn = 0; turn < 8; ++turn) {
    const auto [conn, client] = queue.take();
    queue.schedule(conn);
    queue.charge(client, 60'000, 1);
    ++turns.at(client);
  }
  EXPECT_GT(turns[0], 1);
}

TEST(TransmitQueue, ASessionThatChangesItsClientIsForgottenWhereItWas) {
  std::vector<session::Session> sessions = sessions_of_two(3);
  TransmitQueue queue(sessions.data(), kSessions, kClients);
  queue.schedule(0);
  sessions[0].context = session::kNoContext;
  queue.remove(0);
  EXPECT_TRUE(queue.empty());
  queue.schedule(0);
  EXPECT_EQ(queue.take().client, kClients);
}

TEST(TransmitQueue, GivesEachScheduledSessionOneTurnInOrder) {
  std::vector<session::Session> sessions(4);
  TransmitQueue queue(sessions.data(), kSessions, kClients);
  for (const uint32_t conn : {2u, 0u, 2u, 3u}) queue.schedule(conn);
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_EQ(queue.take().conn, 2u);
  queue.schedule(2);  // has more: behind the others
  EXPECT_EQ(queue.take().conn, 0u);
  EXPECT_EQ(queue.take().conn, 3u);
  EXPECT_EQ(queue.take().conn, 2u);
  EXPECT_TRUE(queue.empty());
}

TEST(TransmitQueue, ForgetsASessionWhereverItStands) {
  std::vector<session::Session> sessions(3);
  TransmitQueue queue(sessions.data(), kSessions, kClients);
  for (uint32_t conn = 0; conn < 3; ++conn) queue.schedule(conn);
  queue.remove(1);
  queue.remove(1);
  EXPECT_EQ(queue.take().conn, 0u);
  queue.remove(2);
  EXPECT_TRUE(queue.empty());
}

TEST(TransmitQueue, WakesAFewOfThoseThatWaitedWhenTheWakingBegan) {
  std::vector<session::Session> sessions(6);
  TransmitQueue queue(sessions.data(), kSessions, kClients);
  for (uint32_t conn = 0; conn < 5; ++conn) queue.wait_for_neighbour(conn);
  queue.wake_some(9);
  EXPECT_TRUE(queue.empty()) << "nothing was learned";
  queue.begin_waking();
  queue.wait_for_neighbour(5);  // waits for what is learned later
  queue.wake_some(3);
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_TRUE(queue.is_waking());
  queue.remove(3);
  queue.wake_some(1);
  queue.wake_some(9);
  EXPECT_FALSE(queue.is_waking());
  for (const uint32_t conn : {0u, 1u, 2u, 4u}) EXPECT_EQ(queue.take().conn, conn);
}

TEST(TransmitQueue, WhoIsScheduledWaitsNoMore) {
  std::vector<session::Session> sessions(2);
  TransmitQueue queue(sessions.data(), kSessions, kClients);
  queue.wait_for_neighbour(1);
  queue.schedule(1);
  EXPECT_EQ(queue.size(), 1u);
  queue.begin_waking();
  EXPECT_FALSE(queue.is_waking());
  EXPECT_EQ(queue.take().conn, 1u);
  queue.wait_for_neighbour(1);
  queue.remove(1);
  queue.begin_waking();
  queue.wake_some(9);
  EXPECT_TRUE(queue.empty());
}

TEST(TransmitQueue, ARoundIsInVainWhenEachSessionHadItsTurn) {
  std::vector<session::Session> sessions = sessions_of_two(4);
  TransmitQueue queue(sessions.data(), kSessions, kClients);
  for (uint32_t conn = 0; conn < 4; ++conn) queue.schedule(conn);
  std::array<int, 4> turns{};
  const auto give_vain_turn = [&] {
    const auto [conn, client] = queue.take();
    ++turns.at(conn);
    queue.schedule_after_vain_turn(conn);
    queue.charge(client, 0, 1);
  };
  while (!queue.is_round_in_vain()) give_vain_turn();
  for (const int count : turns) EXPECT_GT(count, 0) << "a session of either client";
  EXPECT_GT(turns[0], 1) << "turns of one client come in a row";
  queue.remove(0);
  EXPECT_TRUE(queue.is_round_in_vain()) << "all that are left";
  queue.schedule(0);
  EXPECT_FALSE(queue.is_round_in_vain()) << "it was not tried since";
  while (!queue.is_round_in_vain()) give_vain_turn();
  queue.begin_round();
  EXPECT_FALSE(queue.is_round_in_vain());
}

TEST(TransmitQueue, NumbersOfRoundsComeAgain) {
  std::vector<session::Session> sessions = sessions_of_two(3);
  TransmitQueue queue(sessions.data(), kSessions, kClients);
  for (uint32_t conn = 0; conn < 2; ++conn) queue.schedule(conn);
  queue.schedule_after_vain_turn(queue.take().conn);
  for (int round = 0; round < 2 * 65'536; ++round) {
    queue.begin_round();  // of which only the second session has turns
    queue.remove(1);
    queue.schedule_after_vain_turn(1);
    ASSERT_FALSE(queue.is_round_in_vain()) << round;
  }
  while (!queue.empty()) queue.take();
  EXPECT_TRUE(queue.is_round_in_vain());
}

TEST(OrphanQueue, TheOldestOfEachKindGivesWayFirst) {
  std::vector<session::Session> sessions(5);
  OrphanQueue queue(sessions.data());
  EXPECT_EQ(queue.oldest_time_wait(), OrphanQueue::kNone);
  for (const uint32_t conn : {3u, 1u, 2u, 1u}) queue.add(conn, true);
  queue.add(4, false);
  EXPECT_EQ(queue.oldest_time_wait(), 3u);
  EXPECT_EQ(queue.oldest_closing(), 4u);
  queue.remove(3);
  EXPECT_FALSE(queue.holds(3));
  EXPECT_EQ(queue.oldest_time_wait(), 1u);
  queue.remove(0);
  queue.remove(1);
  queue.remove(2);
  EXPECT_FALSE(queue.empty());
  queue.remove(4);
  EXPECT_TRUE(queue.empty());
}

TEST(OrphanQueue, OneThatClosesMayComeToTimeWait) {
  std::vector<session::Session> sessions(2);
  OrphanQueue queue(sessions.data());
  queue.add(0, false);
  queue.add(0, true);
  EXPECT_EQ(queue.oldest_closing(), OrphanQueue::kNone);
  EXPECT_EQ(queue.oldest_time_wait(), 0u);
}

TEST(OrphanQueue, DoesNotHoldWhatAClientOwns) {
  std::vector<session::Session> sessions(2);
  OrphanQueue queue(sessions.data());
  IndexList<session::Session, &session::Session::owner_link> owned;
  sessions[0].context = 5;
  owned.push_back(sessions, 0);
  EXPECT_FALSE(queue.holds(0));
  queue.remove(0);
  EXPECT_EQ(owned.front(), 0u);
}

}  // namespace
}  // namespace lyre::worker
