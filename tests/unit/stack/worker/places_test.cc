#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/channel_client.h"
#include "tests/support/worker_host.h"

// How many of a worker's places for connections and listeners, and how many of its resets, the
// clients of one user get.
namespace lyre::test {
namespace {

using channel::EndStatus;
using channel::Event;

constexpr uint32_t kAddress = 0x0a090001;
constexpr uint16_t kPort = 5000;
constexpr uint32_t kPlaces = 64;
constexpr uint32_t kPerClient = 24;
constexpr uint32_t kPerUser = 32;
constexpr uint32_t kNeighbours = 16;  ///< fewer than a client has connections

class PlacesTest : public testing::Test {
 protected:
  PlacesTest()
      : host_(link_, {.connections_max = kPlaces,
                      .places = {.sessions_per_client = kPerClient,
                                 .sessions_per_user = kPerUser,
                                 .listeners_per_client = 2,
                                 .listeners_per_user = 3},
                      .neighbours_max = kNeighbours}) {}
  ~PlacesTest() override {
    for (auto& client : clients_) client->detach(true);
    run();
  }

  ChannelClient& attach(uint32_t uid) {
    const auto context = static_cast<uint32_t>(clients_.size());
    clients_.push_back(std::make_unique<ChannelClient>(
        host_.worker(), context, true, ChannelClient::kArenaBytes, ChannelClient::kCopyBytes, uid));
    run();
    return *clients_.back();
  }
  void run(int turns = 100) {
    for (int i = 0; i < turns; ++i) {
      now_ = now_ + micros(1);
      host_.worker().poll_once(now_);
    }
    host_.worker().check_invariants(kPlaces);
  }
  EndStatus listen(ChannelClient& client, uint16_t port) {
    client.listen(port, 1);
    run();
    return client.next().status;
  }
  /// Connections of the client with its own listener. Each has two places.
  uint32_t connect_to_itself(ChannelClient& client, uint16_t port, uint32_t attempts) {
    EXPECT_EQ(listen(client, port), EndStatus::kOk);
    uint32_t opened = 0;
    for (uint32_t i = 0; i < attempts; ++i) {
      client.connect({IpAddress::v4(kAddress), port}, i);
      run();
      for (auto entry = client.next(); entry.event != Event::kNone; entry = client.next()) {
        opened += entry.event == Event::kConnected;
      }
    }
    return opened;
  }
  /// The status of a connect to a port without a listener. kOk: it has not ended.
  EndStatus connect_to_nobody(ChannelClient& client) {
    client.connect({IpAddress::v4(kAddress), kPort + 999}, 1);
    run(10);
    for (auto entry = client.next(); entry.event != Event::kNone; entry = client.next()) {
      if (entry.event == Event::kConnectFailed || entry.event == Event::kEnded) return entry.status;
      if (entry.event == Event::kConnecting) client.tell(channel::Op::kClose, entry.session);
    }
    return EndStatus::kOk;
  }

  io::sim::Link link_{{}};
  WorkerHost host_;
  std::vector<std::unique_ptr<ChannelClient>> clients_;
  Nanos now_ = seconds(1);
};

// One client opened connections until the worker had none left for other clients.
TEST_F(PlacesTest, AClientAndAUserLeaveConnectionsToOthers) {
  EXPECT_EQ(connect_to_itself(attach(1), kPort, 40), kPerClient / 2);
  EXPECT_EQ(connect_to_itself(attach(1), kPort + 1, 40), (kPerUser - kPerClient) / 2);
  EXPECT_EQ(connect_to_itself(attach(2), kPort + 2, 40), kPerClient / 2);
}

TEST_F(PlacesTest, PlacesOfAClientThatLeftAreItsUsersAgain) {
  connect_to_itself(attach(1), kPort, 40);
  clients_.back()->detach(true);
  run(2000);
  clients_.clear();
  EXPECT_EQ(connect_to_itself(attach(1), kPort, 40), kPerClient / 2);
}

TEST_F(PlacesTest, AClientAndAUserLeaveListenersToOthers) {
  ChannelClient& first = attach(1);
  EXPECT_EQ(listen(first, kPort), EndStatus::kOk);
  EXPECT_EQ(listen(first, kPort + 1), EndStatus::kOk);
  EXPECT_EQ(listen(first, kPort + 2), EndStatus::kNoResources);
  ChannelClient& second = attach(1);
  EXPECT_EQ(listen(second, kPort + 2), EndStatus::kOk);
  EXPECT_EQ(listen(second, kPort + 3), EndStatus::kNoResources);
  EXPECT_EQ(listen(attach(2), kPort + 3), EndStatus::kOk);
}

// Sessions to neighbours that do not answer kept all entries: nobody could find another neighbour.
TEST_F(PlacesTest, AUserLeavesNeighboursToOthers) {
  ChannelClient& greedy = attach(1);
  for (uint32_t i = 0; i < kPerClient; ++i) {
    greedy.connect({IpAddress::v4(kAddress + 100 + i), kPort}, i);
    run(10);
  }
  WorkerHost neighbour(link_, {.end = 1, .address = kAddress + 1});
  ChannelClient& other = attach(2);
  other.connect({IpAddress::v4(kAddress + 1), kPort}, 1);
  EndStatus status = EndStatus::kOk;
  for (int i = 0; i < 1000 && status == EndStatus::kOk; ++i) {
    run(10);
    link_.advance(now_);
    neighbour.worker().poll_once(now_);
    const auto entry = other.next();
    if (entry.event == Event::kConnectFailed || entry.event == Event::kEnded) status = entry.status;
  }
  EXPECT_EQ(status, EndStatus::kRefused) << "no entry was left for it";
}

// A client that asked closed ports over and over used up the resets of the whole host: connections
// of others to closed ports timed out instead of being refused.
TEST_F(PlacesTest, AUserThatCausesResetsLeavesThoseOfOthers) {
  ChannelClient& greedy = attach(1);
  uint32_t refused = 0;
  for (uint32_t i = 0; i < 2 * worker::kResetBurst; ++i) {
    if (connect_to_nobody(greedy) != EndStatus::kRefused) break;
    ++refused;
  }
  EXPECT_GE(refused, worker::kResetBurst);
  EXPECT_LT(refused, 2 * worker::kResetBurst);
  EXPECT_EQ(connect_to_nobody(attach(2)), EndStatus::kRefused);
}

}  // namespace
}  // namespace lyre::test
