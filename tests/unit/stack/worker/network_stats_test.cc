#include "stack/worker/network_stats.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "tests/unit/stack/worker/worker_parts.h"

namespace lyre::worker {
namespace {

class NetworkStatsTest : public WorkerParts {
 protected:
  NetworkStatsTest() {
    state.stats.neighbours = neighbour_rows_;
    state.stats.routes = route_rows_;
    state.stats.queues = queues_;
  }
  void pass() {
    for (int turns = 0; !network_.write_some_neighbours(); ++turns) ASSERT_LT(turns, 100);
  }
  std::vector<channel::NeighbourView> shown() {
    std::vector<channel::NeighbourView> out;
    channel::NeighbourView view;
    for (const auto& row : neighbour_rows_) {
      if (row.read(view)) out.push_back(view);
    }
    return out;
  }
  /// Another neighbour, which has no MAC yet.
  void ask_for(uint32_t host) {
    static_cast<void>(state.neighbours.resolve(0, IpAddress::v4(0x0a090000 + host), state.now));
  }

  std::array<channel::NeighbourRow, 4> neighbour_rows_{};
  std::array<channel::RouteRow, 4> route_rows_{};
  std::array<channel::QueueStats, 1> queues_{};
  NetworkStats network_{state};
};

TEST_F(NetworkStatsTest, ShowsANeighbourAndWhoUsesIt) {
  ask_for(2);
  learn_peer();
  ASSERT_TRUE(state.neighbours.hold(0, kPeer.address));
  pass();
  ASSERT_EQ(shown().size(), 1u);
  const channel::NeighbourView view = shown()[0];
  EXPECT_EQ(std::memcmp(view.address, kPeer.address.bytes.data(), 16), 0);
  EXPECT_EQ(std::memcmp(view.mac, kPeerMac.bytes.data(), 6), 0);
  EXPECT_EQ(view.state, static_cast<uint8_t>(link::Neighbour::State::kReachable));
  EXPECT_GT(view.reachable_until_unix_ns, state.now.value);
  EXPECT_EQ(view.sessions, 1u);
}

TEST_F(NetworkStatsTest, AnUnansweredQuestionHasNoMac) {
  ask_for(3);
  pass();
  ASSERT_EQ(shown().size(), 1u);
  EXPECT_EQ(shown()[0].mac[5], 0);
}

TEST_F(NetworkStatsTest, ForgottenNeighboursLeaveTheirRows) {
  ask_for(3);
  ask_for(4);
  pass();
  EXPECT_EQ(shown().size(), 2u);
  state.neighbours.on_link_up(0, state.now);
  pass();
  EXPECT_TRUE(shown().empty());
}

TEST_F(NetworkStatsTest, MoreNeighboursThanRowsFit) {
  for (uint32_t host = 3; host < 40; ++host) ask_for(host);
  pass();
  pass();
  EXPECT_EQ(shown().size(), neighbour_rows_.size());
}

TEST_F(NetworkStatsTest, RoutesFollowTheTable) {
  network_.write_routes();
  channel::RouteView view;
  ASSERT_TRUE(route_rows_[0].read(view));
  EXPECT_EQ(view.prefix_bits, 120);
  EXPECT_EQ(std::memcmp(view.source, kOwn.bytes.data(), 16), 0);
  ASSERT_FALSE(route_rows_[1].read(view));
  ASSERT_TRUE(
      state.routes.add_route(ip::Prefix::v4(IpAddress::v4(0), 0), IpAddress::v4(0x0a0900fe), 0));
  network_.write_routes();
  ASSERT_TRUE(route_rows_[1].read(view));
  EXPECT_EQ(view.prefix_bits, 96);
  EXPECT_EQ(view.gateway[15], 0xfe);
}

TEST_F(NetworkStatsTest, QueuesAreAddedUp) {
  ask_for(3);
  neighbourhood.run_timers();
  take_frames();
  const io::IoCounters sum = network_.write_queues();
  EXPECT_GT(state.ports[0].counters().tx_packets, 0u);
  EXPECT_EQ(sum.tx_packets, state.ports[0].counters().tx_packets);
  EXPECT_EQ(queues_[0].tx_packets.get(), sum.tx_packets);
}

}  // namespace
}  // namespace lyre::worker
