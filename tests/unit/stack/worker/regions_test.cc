#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/two_workers.h"

// Registered memory on a worker: who may send from it, and when it may go.
namespace lyre::test {
namespace {

using Kind = worker::Reply::Kind;

constexpr uint32_t kIndex = worker::kContextsMax + 5;
constexpr uint32_t kUse = 1u << channel::kRegionIndexBits;
constexpr uint32_t kName = 3 * kUse + kIndex;
constexpr uint32_t kBytes = 200'000;

class RegisteredMemory : public testing::Test {
 protected:
  explicit RegisteredMemory(const io::sim::LinkOptions& link = {.delay = micros(20)})
      : hosts(link), bytes(kBytes) {
    for (uint32_t i = 0; i < kBytes; ++i) bytes[i] = pattern(1, i);
    hosts.app_b->receive_seed = 1;
  }

  void SetUp() override {
    ASSERT_TRUE(hosts.connect());
    hosts.client_a->add_region(kName, bytes.data(), kBytes);
    ASSERT_TRUE(await(Kind::kRegionAdded));
  }

  /// Runs until worker a gave an answer of this kind about kName.
  bool await(Kind kind) {
    return hosts.run_until(
        [&] {
          take_replies();
          for (const worker::Reply& reply : replies) {
            if (reply.kind == kind && reply.region == kName) return true;
          }
          return false;
        },
        seconds(5));
  }
  void take_replies() {
    worker::Reply reply;
    while (hosts.a.worker().outbox().try_take(reply)) replies.push_back(reply);
  }
  bool has_reply(Kind kind) {
    take_replies();
    return std::any_of(replies.begin(), replies.end(),
                       [&](const worker::Reply& reply) { return reply.kind == kind; });
  }
  channel::SessionName session() { return hosts.app_a->only().name; }
  void send_all() {
    for (uint32_t at = 0; at < kBytes; at += 20'000) {
      ASSERT_TRUE(hosts.client_a->send(session(), at, 20'000, kName));
    }
  }

  TwoWorkers hosts;
  std::vector<uint8_t> bytes;
  std::vector<worker::Reply> replies;
};

TEST_F(RegisteredMemory, IsSentFromWithoutACopy) {
  send_all();
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_a->only().sends_done == 10; }));
  EXPECT_EQ(hosts.app_b->only().received, kBytes);
  EXPECT_TRUE(hosts.app_b->only().is_equal);
  EXPECT_EQ(hosts.a.stats().copied_tx_bytes.get(), 0u);
  EXPECT_EQ(hosts.a.stats().client_copied_tx_bytes.get(), 0u);
}

TEST_F(RegisteredMemory, CopiesThatTheClientMadeAreCounted) {
  channel::Submission entry{.op = channel::Op::kSend, .copied_bytes = 4'000, .session = session()};
  entry.body.send = {.region = 0, .bytes = 5'000, .offset = 0};
  ASSERT_TRUE(hosts.client_a->submit(entry));
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_a->only().sends_done == 1; }));
  EXPECT_EQ(hosts.a.stats().client_copied_tx_bytes.get(), 4'000u);
}

TEST_F(RegisteredMemory, GoesAtOnceWhenAllIsAcknowledged) {
  send_all();
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_a->only().sends_done == 10; }));
  hosts.client_a->remove_region(kName);
  EXPECT_TRUE(await(Kind::kRegionRemoved));
  EXPECT_FALSE(hosts.app_a->only().is_ended);
}

TEST_F(RegisteredMemory, UnacknowledgedBytesEndTheirSessionOnly) {
  hosts.client_a->connect({IpAddress::v4(0x0a090002), 5000}, 10);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_a->stream_count() == 2; }));
  hosts.link.set_up(false);
  send_all();
  hosts.run_for(micros(100));
  hosts.client_a->remove_region(kName);
  EXPECT_TRUE(await(Kind::kRegionRemoved));
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_a->stream(session().index)->is_ended; }));
  EXPECT_EQ(hosts.app_a->only().status, channel::EndStatus::kDeregistered);
  hosts.link.set_up(true);
  hosts.run_for(millis(300));
  uint32_t open = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    PatternApp::Stream* stream = hosts.app_a->stream(i);
    open += stream != nullptr && !stream->is_ended;
  }
  EXPECT_EQ(open, 1u);
}

// The client deregistered while its kSend was still in the ring: the memory may be another's by
// now, and the session cannot go on without these bytes.
TEST_F(RegisteredMemory, ANameOfAnEarlierUseEndsTheSession) {
  hosts.client_a->remove_region(kName);
  ASSERT_TRUE(await(Kind::kRegionRemoved));
  std::vector<uint8_t> next(kBytes, 7);
  hosts.client_a->add_region(kName + kUse, next.data(), kBytes);
  ASSERT_TRUE(hosts.client_a->send(session(), 0, 1'000, kName));
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_a->only().is_ended; }));
  EXPECT_EQ(hosts.app_a->only().status, channel::EndStatus::kDeregistered);
  EXPECT_EQ(hosts.app_b->only().received, 0u);
  EXPECT_FALSE(has_reply(Kind::kExpelled));
}

TEST_F(RegisteredMemory, GoesWithItsContext) {
  send_all();
  hosts.run_for(micros(30));
  hosts.client_a->detach();
  EXPECT_TRUE(hosts.run_until([&] { return has_reply(Kind::kDetached); }));
  EXPECT_FALSE(hosts.a.memory().region_holds(kIndex));
  EXPECT_TRUE(hosts.a.memory().add_region(kIndex, {bytes.data(), kBytes}));  // it is free again
}

TEST_F(RegisteredMemory, AnotherClientMayNotNameIt) {
  ChannelClient thief(hosts.a.worker(), 1);
  PatternApp thief_app(thief);
  hosts.more_apps.push_back(&thief_app);
  thief.connect({IpAddress::v4(0x0a090002), 5000}, 2);
  ASSERT_TRUE(hosts.run_until([&] { return thief_app.stream_count() == 1; }));
  ASSERT_TRUE(thief.send(thief_app.only().name, 0, 1'000, kName));
  EXPECT_TRUE(hosts.run_until([&] { return has_reply(Kind::kExpelled); }));
  EXPECT_EQ(replies.back().context, 1u);
  hosts.more_apps.clear();
}

class BadName : public RegisteredMemory, public testing::WithParamInterface<channel::Submission> {};

TEST_P(BadName, EndsTheClient) {
  channel::Submission entry = GetParam();
  entry.op = channel::Op::kSend;
  entry.session = session();
  ASSERT_TRUE(hosts.client_a->submit(entry));
  EXPECT_TRUE(hosts.run_until([&] { return has_reply(Kind::kExpelled); }));
}

channel::Submission send_of(uint32_t region, uint64_t offset, uint32_t bytes) {
  channel::Submission entry;
  entry.body.send = {.region = region, .bytes = bytes, .offset = offset};
  return entry;
}

INSTANTIATE_TEST_SUITE_P(Rules, BadName,
                         testing::Values(send_of(1, 0, 100), send_of(kName, kBytes, 1),
                                         send_of(kName, UINT64_MAX, 2),
                                         send_of(kName, kBytes - 10, 11), send_of(kName, 0, 0)));

/// A port that keeps what it sent, as DMA does, and a wire that loses: bytes are sent twice.
class HeldMemory : public RegisteredMemory {
 protected:
  HeldMemory()
      : RegisteredMemory({.delay = micros(20),
                          .faults = {.loss_ppm = 30'000},
                          .tx_release = io::sim::TxRelease::kOnReclaim}) {}
};

TEST_F(HeldMemory, GoesOnlyWhenNoPortHoldsIt) {
  send_all();
  hosts.run_for(micros(50));
  hosts.client_a->remove_region(kName);
  ASSERT_TRUE(await(Kind::kRegionRemoved));
  EXPECT_EQ(hosts.a.memory().region_holds(kIndex), 0u);
}

}  // namespace
}  // namespace lyre::test
