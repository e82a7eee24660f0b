#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/two_workers.h"

// What a client leaves behind: its sessions in TIME-WAIT hold nothing that the next client needs.
namespace lyre::test {
namespace {

using Kind = worker::Reply::Kind;

constexpr uint32_t kUse = 1u << channel::kRegionIndexBits;
constexpr uint32_t kRegion = kUse + worker::kContextsMax;
constexpr uint32_t kRegionBytes = 4096;

/// A worker that serves one client at a time, so that its table of sends is as small as it can be.
class Orphans : public testing::Test {
 protected:
  static constexpr uint32_t kSessions =
      channel::kSendsPerContextMax / channel::kSendsOutstandingMax;
  static HostOptions one_client() {
    return {.connections_max = 2 * kSessions + 1, .contexts_max = 1};
  }

  Orphans() : hosts({.delay = micros(5)}, one_client(), one_client()) {
    hosts.client_b->listen(5000, 7, 2 * kSessions);
    hosts.run_until([&] { return !hosts.app_b->others.empty(); });
  }

  bool await(Kind kind, Nanos limit = seconds(1)) {
    return hosts.run_until(
        [&] {
          worker::Reply reply;
          while (hosts.a.worker().outbox().try_take(reply)) {
            if (reply.kind == kind) return true;
          }
          return false;
        },
        limit);
  }
  void connect(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      hosts.client_a->connect({IpAddress::v4(0x0a090002), 5000}, i);
      ASSERT_TRUE(hosts.run_until([&] { return hosts.app_a->stream_count() == i + 1; }));
    }
  }
  /// False: the worker looks at the client's ring no more.
  bool submit_to_all(const channel::Submission& entry) {
    for (const auto& [index, stream] : hosts.app_a->streams()) {
      hosts.run_until([&] { return hosts.client_a->submission_room() > 0; }, millis(1));
      channel::Submission own = entry;
      own.session = stream.name;
      if (!hosts.client_a->submit(own)) return false;
    }
    return true;
  }
  void send_from_all(uint32_t region) {
    channel::Submission entry{.op = channel::Op::kSend};
    entry.body.send = {.region = region, .bytes = 1, .offset = 0};
    for (uint32_t i = 0; i < channel::kSendsOutstandingMax; ++i) {
      if (!submit_to_all(entry)) return;
    }
    hosts.run_for(micros(100));
  }
  /// a's sessions end in order, a first: they wait out TIME-WAIT there.
  void end_in_time_wait() {
    for (const auto& [index, stream] : hosts.app_b->streams()) {
      hosts.client_b->tell(channel::Op::kClose, stream.name);
    }
    hosts.run_for(millis(10));
  }
  /// a's client leaves, and another takes its place in the worker's tables.
  void replace_client() {
    hosts.client_a->detach();
    ASSERT_TRUE(await(Kind::kDetached));
    former_clients.push_back(std::move(hosts.client_a));
    hosts.client_a = std::make_unique<ChannelClient>(hosts.a.worker(), 0);
    hosts.app_a = std::make_unique<PatternApp>(*hosts.client_a);
    hosts.app_a->pool = hosts.a.memory().rx_memory();
    hosts.turn();
  }

  TwoWorkers hosts;
  std::vector<std::unique_ptr<ChannelClient>> former_clients;  ///< their memory
};

TEST_F(Orphans, LeaveTheNextClientAllItsSends) {
  ASSERT_NO_FATAL_FAILURE(connect(kSessions));
  submit_to_all({.op = channel::Op::kShutdown});
  send_from_all(0);
  end_in_time_wait();
  ASSERT_NO_FATAL_FAILURE(replace_client());
  ASSERT_NO_FATAL_FAILURE(connect(kSessions));
  hosts.link.set_up(false);
  send_from_all(0);
  hosts.a.worker().check_invariants(UINT32_MAX);
  EXPECT_EQ(hosts.a.stats().clients_expelled.get(), 1u) << "the first of them, no other";
  EXPECT_FALSE(await(Kind::kExpelled, millis(1)));
}

TEST_F(Orphans, NameNoMemoryOfTheNextClient) {
  std::vector<uint8_t> memory(kRegionBytes);
  hosts.client_a->add_region(kRegion, memory.data(), kRegionBytes);
  ASSERT_NO_FATAL_FAILURE(connect(1));
  submit_to_all({.op = channel::Op::kShutdown});
  send_from_all(kRegion);
  end_in_time_wait();
  ASSERT_NO_FATAL_FAILURE(replace_client());
  hosts.client_a->add_region(kRegion + kUse, memory.data(), kRegionBytes);
  ASSERT_TRUE(await(Kind::kRegionAdded));
  hosts.client_a->remove_region(kRegion + kUse);
  EXPECT_TRUE(await(Kind::kRegionRemoved, millis(100)));
}

/// The peer never closes its end, so each of a's sessions stays in FIN-WAIT-2 after its client.
TEST(OrphansThatClose, GiveTheirPlacesToOthers) {
  constexpr uint32_t kPlaces = 4;
  constexpr uint32_t kDialogs = 10;
  TwoWorkers hosts({}, {.connections_max = kPlaces});
  hosts.client_b->listen(5000, 7, kDialogs);
  hosts.run_for(millis(1));
  for (uint32_t i = 0; i < kDialogs; ++i) {
    SCOPED_TRACE(i);
    hosts.client_a->connect({IpAddress::v4(0x0a090002), 5000}, i);
    channel::SessionName name;
    ASSERT_TRUE(hosts.run_until([&] {
      for (const auto& [index, stream] : hosts.app_a->streams()) {
        if (!stream.is_ended) name = stream.name;
      }
      return !(name == channel::SessionName{});
    }));
    hosts.client_a->tell(channel::Op::kClose, name);
    ASSERT_TRUE(hosts.run_until([&] { return hosts.app_a->stream(name.index)->is_ended; }));
    hosts.a.worker().check_invariants(UINT32_MAX);
  }
  EXPECT_TRUE(hosts.app_a->others.empty()) << "a connect failed";
  EXPECT_EQ(hosts.a.stats().orphans_cut.get(), kDialogs - kPlaces);
  EXPECT_EQ(hosts.b.stats().tcp_resets_in.get(), kDialogs - kPlaces);
}

}  // namespace
}  // namespace lyre::test
