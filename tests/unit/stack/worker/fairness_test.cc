#include <gtest/gtest.h>

#include "tests/support/two_workers.h"
#include "tests/unit/stack/worker/hand_made_peer.h"

// What a client gets beside another one that takes all it can.
namespace lyre::test {
namespace {

constexpr uint16_t kPort = 5000;
constexpr uint32_t kGreedySessions = 16;
constexpr uint32_t kBlockBytes = 60'000;

HostOptions roomy() {
  HostOptions out;
  out.rx_slots = 4096;
  return out;
}

/// A port that is full most of the time, so that turns decide who sends.
io::sim::LinkOptions slow_port() { return {.rate_bytes_per_s = 125'000'000, .frames_max = 128}; }

/// Two clients of the left host that send to the right one without end.
class TwoSenders {
 public:
  TwoSenders()
      : hosts(slow_port(), roomy(), roomy()), second(hosts.a.worker(), 1), second_app(second) {
    hosts.app_a->checks_bytes = hosts.app_b->checks_bytes = second_app.checks_bytes = false;
    hosts.more_apps.push_back(&second_app);
    hosts.client_b->listen(kPort, 1, /*backlog=*/64);
    hosts.run_for(millis(1));
    for (uint32_t i = 0; i < kGreedySessions; ++i) dial(*hosts.client_a);
    dial(second);
    LYRE_CHECK(hosts.run_until([&] {
      return hosts.app_a->stream_count() == kGreedySessions && second_app.stream_count() == 1;
    }));
  }

  /// Blocks that each has sent, and the peer acknowledged, until the first has sent `blocks`.
  std::pair<uint64_t, uint64_t> run(uint64_t blocks) {
    LYRE_CHECK(hosts.run_until([&] {
      refill(*hosts.client_a, *hosts.app_a);
      refill(second, second_app);
      return done(*hosts.app_a) >= blocks;
    }));
    return {done(*hosts.app_a), done(second_app)};
  }

 private:
  void dial(ChannelClient& client) { client.connect({IpAddress::v4(0x0a090002), kPort}, 1); }
  static uint64_t done(const PatternApp& app) {
    uint64_t sum = 0;
    for (const auto& [index, stream] : app.streams()) sum += stream.sends_done;
    return sum;
  }
  /// Four blocks of each session are on their way.
  void refill(ChannelClient& client, const PatternApp& app) {
    for (const auto& [index, stream] : app.streams()) {
      uint64_t& sent = sent_[index];
      for (; sent < stream.sends_done + 4; ++sent) {
        if (!client.send(stream.name, 0, kBlockBytes)) return;
      }
    }
  }

  TwoWorkers hosts;
  ChannelClient second;
  PatternApp second_app;
  std::map<uint32_t, uint64_t> sent_;  ///< by session; both clients' are of one worker
};

TEST(Fairness, ManySessionsOfOneClientLeaveTheOtherItsShare) {
  TwoSenders senders;
  const auto [greedy, modest] = senders.run(400);
  EXPECT_GT(modest * 2, greedy) << "round robin by session leaves it a sixteenth";
}

TEST(Fairness, AClientThatListensOnAllPortsItCanLeavesSomeToOthers) {
  TwoWorkers hosts;
  ChannelClient greedy(hosts.a.worker(), 1);
  PatternApp greedy_app(greedy);
  hosts.more_apps.push_back(&greedy_app);
  for (uint16_t port = 1000; port < 3000; ++port) {
    ASSERT_TRUE(hosts.run_until([&] { return greedy.listen(port, port); }));
  }
  hosts.run_for(millis(10));
  ASSERT_EQ(greedy_app.others.size(), 2000u);
  EXPECT_EQ(greedy_app.others.back().event, channel::Event::kListenFailed);
  EXPECT_EQ(greedy_app.others.back().status, channel::EndStatus::kNoResources);
  hosts.client_a->listen(5000, 1);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_a->others.size() == 1; }, seconds(1)));
  EXPECT_EQ(hosts.app_a->others.back().event, channel::Event::kListening);
}

// One RST for each segment would let other hosts send through this one at the rate they like.
TEST(Fairness, SegmentsOfNoConnectionAreResetAtALimitedRate) {
  HandMadePeer peer(/*over_ipv6=*/false);
  const uint64_t before = peer.hosts().b.stats().tcp_resets_out.get();
  for (int i = 0; i < 3000; ++i) peer.give(peer.foreign(wire::TcpFlags::kAck, 7));
  const uint64_t sent = peer.hosts().b.stats().tcp_resets_out.get() - before;
  EXPECT_GE(sent, 1000u);
  EXPECT_LT(sent, 1100u);
}

}  // namespace
}  // namespace lyre::test
