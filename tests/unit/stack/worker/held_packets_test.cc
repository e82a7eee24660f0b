#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "stack/io/sim/queue.h"
#include "stack/worker/turn_limits.h"
#include "tests/support/two_workers.h"
#include "tests/unit/stack/worker/replies.h"

// Drivers that free sent packets late: sessions go on, and a client gets memory back only when no
// port can read it any more.
namespace lyre::test {
namespace {

using io::sim::TxRelease;

constexpr uint32_t kName = (1u << channel::kRegionIndexBits) + worker::kContextsMax + 5;
constexpr uint32_t kIndex = worker::kContextsMax + 5;
constexpr uint32_t kBytes = 400'000;
constexpr uint32_t kBlock = 20'000;

/// One client with registered memory, on two hosts.
class HeldPackets {
 public:
  explicit HeldPackets(const io::sim::LinkOptions& link, const HostOptions& left = {},
                       const HostOptions& right = {})
      : hosts(link, left, right), bytes(kBytes) {
    for (uint32_t i = 0; i < kBytes; ++i) bytes[i] = pattern(1, i);
    hosts.app_b->receive_seed = 1;
    LYRE_CHECK(hosts.connect());
    hosts.client_a->add_region(kName, bytes.data(), kBytes);
    hosts.run_for(micros(100));
  }

  PatternApp::Stream& left() { return hosts.app_a->only(); }
  PatternApp::Stream& right() { return hosts.app_b->only(); }
  uint32_t holds() { return hosts.a.memory().region_holds(kIndex); }
  void send(channel::SessionName session, uint32_t length = kBytes) {
    for (uint32_t at = 0; at < length; at += kBlock) {
      ASSERT_TRUE(hosts.client_a->send(session, at, kBlock, kName));
    }
  }
  /// The virtual time until all bytes are acknowledged.
  Nanos transfer() {
    const Nanos begin = hosts.now;
    send(left().name);
    EXPECT_TRUE(hosts.run_until([&] { return left().sends_done == kBytes / kBlock; }));
    EXPECT_TRUE(right().is_equal);
    EXPECT_EQ(right().received, kBytes);
    return hosts.now - begin;
  }
  uint64_t frames_sent() { return hosts.a.stats().tx_packets.get(); }

  TwoWorkers hosts;
  std::vector<uint8_t> bytes;
};

Nanos time_of_transfer(TxRelease release, uint32_t loss_ppm, uint64_t seed) {
  HeldPackets world({.seed = seed,
                     .delay = micros(50),
                     .rate_bytes_per_s = 1'250'000'000,
                     .faults = {.loss_ppm = loss_ppm},
                     .tx_release = release});
  return world.transfer();
}

TEST(HeldPackets, RetransmissionsDoNotWaitForTheDriver) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Nanos at_once = time_of_transfer(TxRelease::kAtOnce, 10'000, seed);
    const Nanos by_sending = time_of_transfer(TxRelease::kBySending32, 10'000, seed);
    EXPECT_LE(by_sending, at_once + micros(100)) << "seed " << seed;
  }
}

// Without a buffer for a copy, client memory is sent again, and what is told waits for the driver.
TEST(HeldPackets, WithoutBuffersFinishedSendsWaitForTheDriver) {
  HeldPackets world({.delay = micros(50), .tx_release = TxRelease::kOnReclaim}, {.rx_slots = 64});
  std::vector<io::PacketBuf*> taken;
  while (world.hosts.a.memory().rx_slots_free() > 4) {
    taken.push_back(world.hosts.a.memory().alloc_rx());
  }
  world.hosts.link.set_up(false);
  world.send(world.left().name, kBlock);
  world.hosts.run_for(millis(2));
  world.hosts.link.set_up(true);
  ASSERT_TRUE(world.hosts.run_until([&] { return world.left().sends_done == 1; }));
  EXPECT_EQ(world.holds(), 0u);
  EXPECT_GT(world.hosts.a.stats().tcp_payload_retransmitted.get(), 0u);
  EXPECT_EQ(world.hosts.a.stats().copied_tx_bytes.get(), 0u);
  world.hosts.a.memory().release(taken);
}

TEST(HeldPackets, AResetByThePeerDoesNotGiveBackMemoryThatThePortReads) {
  HeldPackets world({.delay = micros(50), .tx_release = TxRelease::kBySending32});
  world.send(world.left().name);
  ASSERT_TRUE(world.hosts.run_until([&] { return world.right().received > 0; }));
  ASSERT_TRUE(world.hosts.client_b->tell(channel::Op::kAbort, world.right().name));
  bool was_held = false;
  ASSERT_TRUE(world.hosts.run_until([&] {
    was_held |= world.holds() > 0;
    return world.left().is_ended || world.left().sends_done == kBytes / kBlock;
  }));
  EXPECT_TRUE(was_held);
  EXPECT_EQ(world.holds(), 0u);
  EXPECT_TRUE(world.hosts.run_until([&] { return world.left().is_ended; }));
  EXPECT_EQ(world.left().status, channel::EndStatus::kReset);
}

/// Two hosts with two wires between them; the first wire's ports hold packets while it is down.
class StuckPort : public testing::Test {
 protected:
  explicit StuckPort(TxRelease of_second = TxRelease::kAtOnce)
      : second_link({.delay = micros(20), .tx_release = of_second}),
        world({.delay = micros(20),
               .tx_release = TxRelease::kOnReclaimWhileUp,
               .tx_ring_packets = 64},
              with_second(0), with_second(1)) {
    stuck = world.left().name;
    world.hosts.client_a->connect({IpAddress::v4(0x0a0a0002), 5000}, 10);
    LYRE_CHECK(run_until([&] { return world.hosts.app_a->stream_count() == 2; }));
    for (const auto& [index, stream] : world.hosts.app_a->streams()) {
      if (index != stuck.index) other = stream.name;
    }
    // Bytes of which the port of `stuck` will not let go.
    world.hosts.link.set_up(false);
    world.send(stuck, 2 * kBlock);
    run_for(micros(200));
    LYRE_CHECK(world.holds() > 0);
  }
  HostOptions with_second(int end) {
    return {.second_link = &second_link,
            .second_address = 0x0a0a0001u + static_cast<uint32_t>(end)};
  }
  template <typename IsDone>
  bool run_until(IsDone is_done, Nanos limit = seconds(5)) {
    return world.hosts.run_until(
        [&] {
          second_link.advance(world.hosts.now);
          return is_done();
        },
        limit);
  }
  void run_for(Nanos span) {
    const Nanos end = world.hosts.now + span;
    run_until([&] { return world.hosts.now >= end; }, span);
  }
  uint64_t waits() { return static_cast<io::sim::Queue&>(world.hosts.link.queue(0, 0)).waits(); }
  static uint32_t name_of(uint32_t region) { return kName + 1 + region; }
  bool is_ended(channel::SessionName session) {
    return world.hosts.app_a->stream(session.index)->is_ended;
  }

  io::sim::Link second_link;
  HeldPackets world;
  channel::SessionName stuck;
  channel::SessionName other;
};

TEST_F(StuckPort, HoldsUpTheEndOfItsSessionOnly) {
  ASSERT_TRUE(world.hosts.client_a->tell(channel::Op::kAbort, stuck));
  run_for(millis(5));
  world.send(other);
  EXPECT_TRUE(run_until(
      [&] { return world.hosts.app_a->stream(other.index)->sends_done == kBytes / kBlock; },
      millis(500)));
  EXPECT_FALSE(is_ended(stuck));
  world.hosts.link.set_up(true);
  EXPECT_TRUE(run_until([&] { return is_ended(stuck); }));
  EXPECT_EQ(world.holds(), 0u);
}

TEST_F(StuckPort, IsAskedSeldomAndGivenFewPackets) {
  ASSERT_TRUE(world.hosts.client_a->tell(channel::Op::kAbort, stuck));
  run_for(millis(50));
  const uint64_t polls_before = world.hosts.a.stats().polls.get();
  const uint64_t sent_before = world.frames_sent();
  run_for(seconds(1));
  EXPECT_FALSE(world.hosts.a.worker().has_waiting_work());
  EXPECT_LT(world.hosts.a.stats().polls.get() - polls_before, 400u);
  EXPECT_LT(world.frames_sent() - sent_before, 100u);
  EXPECT_FALSE(is_ended(stuck));
}

TEST_F(StuckPort, HoldsUpTheRemovalOfMemoryWithoutSpinning) {
  world.hosts.client_a->remove_region(kName);
  run_for(millis(50));
  const uint64_t polls_before = world.hosts.a.stats().polls.get();
  run_for(seconds(1));
  EXPECT_FALSE(world.hosts.a.worker().has_waiting_work());
  EXPECT_LT(world.hosts.a.stats().polls.get() - polls_before, 400u);
  EXPECT_GT(world.holds(), 0u);
  world.hosts.link.set_up(true);
  EXPECT_TRUE(run_until([&] { return world.holds() == 0; }));
}

TEST_F(StuckPort, WithManyWaitingSessionsIsAskedSeldom) {
  constexpr uint32_t kSessions = 40;
  world.hosts.link.set_up(true);
  for (uint32_t i = 0; i < kSessions; ++i) {
    world.hosts.client_a->connect({IpAddress::v4(0x0a090002), 5000}, 100 + i);
    run_for(micros(500));
  }
  ASSERT_TRUE(run_until([&] { return world.hosts.app_a->stream_count() == 2 + kSessions; }));
  run_for(millis(10));
  world.hosts.link.set_up(false);
  std::vector<channel::SessionName> names;
  for (const auto& [index, stream] : world.hosts.app_a->streams()) {
    if (stream.is_ended || index == other.index) continue;
    world.hosts.client_a->send(stream.name, 0, 100, kName);
    names.push_back(stream.name);
    run_for(micros(50));
  }
  for (const channel::SessionName& name : names) {
    ASSERT_TRUE(world.hosts.client_a->tell(channel::Op::kAbort, name));
  }
  run_for(millis(300));
  const uint64_t polls_before = world.hosts.a.stats().polls.get();
  run_for(seconds(1));
  EXPECT_LT(world.hosts.a.stats().polls.get() - polls_before, 400u);
  EXPECT_GT(std::count_if(names.begin(), names.end(), [&](const auto& n) { return !is_ended(n); }),
            33);
  world.hosts.link.set_up(true);
  EXPECT_TRUE(run_until([&] {
    return std::all_of(names.begin(), names.end(), [&](auto n) { return is_ended(n); });
  }));
}

// One client's regions that a port does not release, and another's that nothing holds.
TEST_F(StuckPort, DelaysTheRemovalOfNoMemoryThatItDoesNotHold) {
  constexpr uint32_t kRegions = 100;
  constexpr size_t kAnswersToAdding = kRegions + 2;
  world.hosts.link.set_up(true);
  run_for(millis(50));
  for (uint32_t i = 0; i < kRegions; ++i) {
    world.hosts.client_a->add_region(name_of(i), world.bytes.data(), kBytes);
    run_for(micros(100));
  }
  ChannelClient client_of_other(world.hosts.a.worker(), 1);
  client_of_other.add_region(name_of(kRegions), world.bytes.data(), kBytes);
  run_for(millis(1));
  world.hosts.link.set_up(false);
  for (uint32_t i = 0; i < kRegions; ++i) {  // several of them in a segment
    ASSERT_TRUE(world.hosts.client_a->send(stuck, 0, 300, name_of(i)));
  }
  run_for(millis(1));
  for (uint32_t i = 0; i < kRegions; ++i) {
    world.hosts.client_a->remove_region(name_of(i));
    run_for(micros(100));
  }
  run_for(millis(300));
  const uint64_t polls_before = world.hosts.a.stats().polls.get();
  run_for(seconds(1));
  EXPECT_LT(world.hosts.a.stats().polls.get() - polls_before, 400u);
  constexpr uint32_t kMoreThanALook = 2 * worker::kLeavingRegionsPerPollMax;
  ASSERT_GT(world.hosts.a.memory().region_holds(kIndex + kMoreThanALook), 0u);
  size_t removed = take_replies(world.hosts.a.worker()).size() - kAnswersToAdding;
  client_of_other.remove_region(name_of(kRegions));
  world.hosts.turn();
  world.hosts.turn();
  EXPECT_TRUE(has_reply(world.hosts.a.worker(), worker::Reply::Kind::kRegionRemoved, 1));
  world.hosts.link.set_up(true);
  EXPECT_TRUE(run_until([&] {
    removed += take_replies(world.hosts.a.worker()).size();
    return removed == kRegions;
  }));
}

TEST_F(StuckPort, DelaysTheDetachOfNobodyWhoseMemoryItDoesNotHold) {
  world.hosts.client_a->remove_region(kName);
  ChannelClient client_of_other(world.hosts.a.worker(), 1);
  run_for(seconds(1));
  client_of_other.detach();
  run_for(micros(100));
  EXPECT_TRUE(has_reply(world.hosts.a.worker(), worker::Reply::Kind::kDetached, 1));
  EXPECT_FALSE(world.hosts.a.worker().has_waiting_work());
}

TEST_F(StuckPort, KeepsAContextWhoseMemoryItHoldsWithoutSpinning) {
  world.hosts.client_a->detach(true);
  run_for(millis(300));
  const uint64_t polls_before = world.hosts.a.stats().polls.get();
  run_for(seconds(1));
  EXPECT_FALSE(world.hosts.a.worker().has_waiting_work());
  EXPECT_LT(world.hosts.a.stats().polls.get() - polls_before, 400u);
  EXPECT_FALSE(has_reply(world.hosts.a.worker(), worker::Reply::Kind::kDetached, 0));
  world.hosts.link.set_up(true);
  EXPECT_TRUE(run_until(
      [&] { return has_reply(world.hosts.a.worker(), worker::Reply::Kind::kDetached, 0); }));
}

// A NIC whose driver was not told of a reset, say. Nothing is acknowledged, so that no send waits
// for the driver, and the few packets of timeouts do not fill the port.
TEST_F(StuckPort, IsWaitedForAfterATimeout) {
  run_for(seconds(3));
  for (int second = 0; second < 12; ++second) {
    const uint64_t waits_before = waits();
    run_for(seconds(1));
    EXPECT_GT(waits(), waits_before) << "second " << second;
  }
  world.hosts.link.set_up(true);
  run_for(seconds(20));
  const uint64_t waits_before = waits();
  run_for(seconds(1));
  EXPECT_EQ(waits(), waits_before);
}

/// The second port's driver frees 32 packets at a time, when it sends.
class StuckPortBesideALazyOne : public StuckPort {
 protected:
  StuckPortBesideALazyOne() : StuckPort(TxRelease::kBySending32) {}
  uint64_t waits_for_second() {
    return static_cast<io::sim::Queue&>(second_link.queue(0, 0)).waits();
  }
  uint64_t sent_by_second() { return second_link.queue(0, 0).counters().tx_packets; }
};

// A wait for one port is no wait for another, which may keep what it has: it is healthy.
TEST_F(StuckPortBesideALazyOne, IsTheOnlyOneThatIsWaitedFor) {
  world.send(other, kBlock);
  run_for(millis(10));
  ASSERT_GT(second_link.queue(0, 0).tx_held(), 0u);
  ASSERT_TRUE(world.hosts.client_a->tell(channel::Op::kAbort, stuck));
  world.hosts.client_a->remove_region(kName);
  run_for(seconds(1));
  const uint64_t waits_before = waits_for_second();
  const uint64_t sent_before = sent_by_second();
  run_for(seconds(20));
  EXPECT_EQ(waits_for_second(), waits_before);
  EXPECT_LT(sent_by_second() - sent_before, 10u);
  EXPECT_FALSE(is_ended(stuck));
}

// Memory that comes and goes takes nothing from the waits for a port.
TEST_F(StuckPortBesideALazyOne, ReleasesElsewhereDoNotDelayAWait) {
  world.hosts.link.set_up(true);
  run_for(millis(50));
  world.send(other, kBlock);
  run_until([&] { return second_link.queue(0, 0).tx_held() > 0; });
  ASSERT_TRUE(world.hosts.client_a->tell(channel::Op::kAbort, other));
  const uint64_t sent_before = sent_by_second();
  uint32_t removed = 0;
  const auto add_and_remove_each_turn = [&] {
    for (const worker::Reply& reply : take_replies(world.hosts.a.worker())) {
      removed += reply.kind == worker::Reply::Kind::kRegionRemoved;
    }
    world.hosts.client_a->add_region(name_of(0), world.bytes.data(), kBytes);
    world.hosts.client_a->remove_region(name_of(0));
    return is_ended(other);
  };
  EXPECT_TRUE(run_until(add_and_remove_each_turn, millis(100)));
  EXPECT_GT(removed, 100u);
  EXPECT_LE(sent_by_second() - sent_before, worker::kNudgePacketsMax + 46u)
      << "nudges, and what was under way";
}

TEST_F(StuckPort, ThatIsFullDoesNotKeepTheWorkerAwake) {
  // Requests to connect fill the ring of the port, which frees nothing.
  world.send(stuck);
  for (uint32_t i = 0; i < 40; ++i) {
    world.hosts.client_a->connect({IpAddress::v4(0x0a090002), 5000}, 100 + i);
  }
  run_for(seconds(20));
  const uint64_t polls_before = world.hosts.a.stats().polls.get();
  run_for(seconds(1));
  EXPECT_LT(world.hosts.a.stats().polls.get() - polls_before, 1000u);
}

}  // namespace
}  // namespace lyre::test
