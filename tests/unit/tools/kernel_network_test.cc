#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tools/lyre/perf/conversation.h"
#include "tools/lyre/perf/exchange.h"
#include "tools/lyre/perf/stream.h"

// What Lyre is measured beside: sockets that wait by epoll, and send with or without MSG_ZEROCOPY.
namespace lyre::perf {
namespace {

constexpr size_t kSessions = 4;
constexpr int kTurnsMax = 20'000;
constexpr int kPollMs = 1;

struct Case {
  bool is_zero_copy = false;
  bool is_spinning = false;
};

class KernelNetworkTest : public testing::TestWithParam<Case> {
 protected:
  using Conversations = std::vector<std::unique_ptr<Conversation>>;

  /// Runs `plan` on several connections at once until all of them are over.
  void converse(const Plan& plan) {
    lyre_addr local{};
    ASSERT_EQ(lyre_addr_parse("127.0.0.1:0", &local), 0);
    const lyre_addr at = server->listen(local);
    for (size_t i = 0; i < kSessions; ++i) {
      asking.push_back(std::make_unique<Conversation>(client->connect(at), plan));
    }
    for (int i = 0; i < kTurnsMax && !is_over(); ++i) {
      if (auto stream = server->try_accept()) {
        serving.push_back(std::make_unique<Conversation>(std::move(stream), std::nullopt));
      }
      const bool has_asked = step(asking);
      const bool has_served = step(serving);
      server->wait(0);
      client->wait(has_asked || has_served ? 0 : kPollMs);
    }
    ASSERT_TRUE(is_over());
  }

  std::unique_ptr<Network> server = make();
  std::unique_ptr<Network> client = make();
  Conversations asking;
  Conversations serving;

 private:
  static std::unique_ptr<Network> make() {
    return make_kernel_network({.socket_path = {},
                                .is_zero_copy = GetParam().is_zero_copy,
                                .is_spinning = GetParam().is_spinning});
  }
  static bool step(Conversations& conversations) {
    bool has_worked = false;
    for (const auto& conversation : conversations) has_worked |= conversation->step(now_ns());
    return has_worked;
  }
  bool is_over() const {
    const auto over = [](const auto& conversation) { return conversation->is_over(); };
    return serving.size() == kSessions && std::all_of(asking.begin(), asking.end(), over) &&
           std::all_of(serving.begin(), serving.end(), over);
  }
};

TEST_P(KernelNetworkTest, BytesGoBothWays) {
  Plan plan;
  plan.direction = Direction::kBoth;
  plan.bytes = 9'000'001;
  plan.block_bytes = 128 * 1024;
  plan.has_hash = true;
  converse(plan);
  for (const auto& conversation : asking) {
    EXPECT_TRUE(conversation->outcome().is_intact());
    EXPECT_TRUE(conversation->outcome().are_hashes_equal());
    EXPECT_EQ(conversation->outcome().received.bytes, plan.bytes);
  }
}

TEST_P(KernelNetworkTest, MessagesComeBack) {
  Plan plan;
  plan.kind = Kind::kPingPong;
  plan.message_bytes = 100'000;
  plan.count = 50;
  converse(plan);
  for (const auto& conversation : asking) {
    EXPECT_EQ(conversation->outcome().round_trips_ns.size(), plan.count);
    EXPECT_TRUE(conversation->outcome().is_intact());
  }
}

/// More than one call of epoll_wait() returns.
TEST(KernelNetwork, OneWaitTakesTheEventsOfAllStreams) {
  constexpr size_t kStreams = 80;
  const auto server = make_kernel_network({});
  const auto client = make_kernel_network({});
  lyre_addr local{};
  ASSERT_EQ(lyre_addr_parse("127.0.0.1:0", &local), 0);
  const lyre_addr at = server->listen(local);
  std::vector<std::unique_ptr<Stream>> asking, serving;
  for (size_t i = 0; i < kStreams; ++i) asking.push_back(client->connect(at));
  for (int i = 0; i < kTurnsMax && serving.size() < kStreams; ++i) {
    server->wait(kPollMs);
    while (auto stream = server->try_accept()) serving.push_back(std::move(stream));
  }
  ASSERT_EQ(serving.size(), kStreams);
  for (const auto& stream : asking) EXPECT_TRUE(stream->peek().empty());
  size_t most = 0;
  // Once more where a byte had not arrived when the client looked.
  for (int i = 0; i < kTurnsMax && most < kStreams; ++i) {
    for (const auto& stream : serving) {
      const std::span<uint8_t> byte = stream->try_begin_write(1);
      ASSERT_EQ(byte.size(), 1u);
      byte.front() = 1;
      stream->commit_write(1);
    }
    client->wait(kWaitMs);
    size_t readable = 0;
    for (const auto& stream : asking) {
      const size_t bytes = stream->peek().size();
      stream->consume(bytes);
      readable += bytes > 0;
    }
    most = std::max(most, readable);
  }
  EXPECT_EQ(most, kStreams);
}

INSTANTIATE_TEST_SUITE_P(Ways, KernelNetworkTest,
                         testing::Values(Case{}, Case{.is_zero_copy = true, .is_spinning = false},
                                         Case{.is_zero_copy = false, .is_spinning = true}));

}  // namespace
}  // namespace lyre::perf
