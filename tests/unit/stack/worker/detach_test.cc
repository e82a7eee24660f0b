#include <gtest/gtest.h>

#include "tests/support/two_workers.h"
#include "tests/unit/stack/worker/replies.h"

// What becomes of a client's sessions and memory when it is gone.
namespace lyre::test {
namespace {

bool await_detached(TwoWorkers& hosts, WorkerHost& host) {
  return hosts.run_until(
      [&] { return has_reply(host.worker(), worker::Reply::Kind::kDetached, 0); });
}

TEST(Detach, ClosesSessionsAndTakesLentSlotsBack) {
  TwoWorkers hosts;
  ASSERT_TRUE(hosts.connect());
  const uint32_t free_before = hosts.b.memory().rx_slots_free();
  hosts.app_b->keeps_slots = true;
  hosts.app_a->send_pattern(hosts.app_a->only().name, 0, 100'000, 10'000);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_b->only().received == 100'000; }));
  hosts.client_b->detach();
  EXPECT_TRUE(await_detached(hosts, hosts.b));
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_a->only().is_finished; }));
  EXPECT_FALSE(hosts.app_a->only().is_ended) << "its own direction is open";
  EXPECT_GE(hosts.b.memory().rx_slots_free(), free_before);
}

TEST(Detach, OfAClientThatIsToBeResetResets) {
  TwoWorkers hosts;
  ASSERT_TRUE(hosts.connect());
  hosts.client_b->detach(true);
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_a->only().is_ended; }));
  EXPECT_FALSE(hosts.app_a->only().is_finished);
  EXPECT_EQ(hosts.app_a->only().status, channel::EndStatus::kReset);
}

TEST(Detach, DeliversWhatTheClientSentBeforeTheEnd) {
  TwoWorkers hosts({.delay = millis(5)});
  ASSERT_TRUE(hosts.connect());
  hosts.app_a->send_pattern(hosts.app_a->only().name, 0, 500'000, 50'000);
  hosts.client_a->detach();  // the worker has not even seen the submissions
  EXPECT_TRUE(await_detached(hosts, hosts.a));
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_b->only().is_finished; }));
  EXPECT_EQ(hosts.app_b->only().received, 500'000u);
  EXPECT_FALSE(hosts.app_b->only().is_ended);
}

TEST(Detach, WaitsForAcknowledgementsOnlySoLong) {
  TwoWorkers hosts;
  ASSERT_TRUE(hosts.connect());
  hosts.app_a->send_pattern(hosts.app_a->only().name, 0, 500'000, 50'000);
  hosts.run_for(micros(1));
  hosts.link.set_up(false);
  const Nanos left_at = hosts.now;
  hosts.client_a->detach();
  hosts.run_for(millis(100));
  EXPECT_FALSE(has_reply(hosts.a.worker(), worker::Reply::Kind::kDetached, 0));
  EXPECT_FALSE(hosts.a.worker().has_waiting_work()) << "a worker may sleep meanwhile";
  EXPECT_TRUE(await_detached(hosts, hosts.a));
  EXPECT_LT(hosts.now - left_at, seconds(2));
  EXPECT_EQ(hosts.a.worker().connection_count(), 0u);
}

TEST(Detach, WaitsForAcknowledgementsAfterAStandstill) {
  TwoWorkers hosts;
  ASSERT_TRUE(hosts.connect());
  hosts.app_a->send_pattern(hosts.app_a->only().name, 0, 500'000, 50'000);
  hosts.run_for(micros(1));
  hosts.link.set_up(false);
  hosts.client_a->detach();
  hosts.run_for(millis(100));
  hosts.a.worker().on_standstill(seconds(5), seconds(5));
  hosts.now += seconds(5);
  hosts.run_for(millis(500));
  EXPECT_EQ(hosts.a.worker().connection_count(), 1u);
  EXPECT_TRUE(await_detached(hosts, hosts.a));
}

TEST(Detach, OfManySessionsIsSpreadOverTurns) {
  TwoWorkers hosts({}, {.connections_max = 2000});
  open_many(hosts, 1500);
  const uint32_t before = hosts.a.worker().connection_count();
  hosts.client_a->detach();
  hosts.turn();
  EXPECT_LT(hosts.a.worker().connection_count(), before);
  EXPECT_GT(hosts.a.worker().connection_count(), 500u);
  hosts.a.worker().check_invariants(UINT32_MAX);
  EXPECT_TRUE(hosts.a.worker().has_waiting_work());
  EXPECT_TRUE(hosts.run_until(
      [&] { return has_reply(hosts.a.worker(), worker::Reply::Kind::kDetached, 0); }));
  EXPECT_EQ(hosts.a.worker().connection_count(), 0u);
}

TEST(Detach, WhileBytesAreUnderWayLeavesNothingBehind) {
  TwoWorkers hosts({.delay = millis(1), .tx_release = io::sim::TxRelease::kOnReclaim});
  ASSERT_TRUE(hosts.connect());
  hosts.app_a->send_pattern(hosts.app_a->only().name, 0, 500'000, 50'000);
  for (int i = 0; i < 3; ++i) hosts.turn();
  hosts.client_a->detach();
  bool is_detached = false;
  EXPECT_TRUE(hosts.run_until([&] {
    is_detached |= has_reply(hosts.a.worker(), worker::Reply::Kind::kDetached, 0);
    return is_detached;
  }));
  EXPECT_EQ(hosts.a.memory().region_holds(0), 0u);
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_b->only().is_finished; }));
}

}  // namespace
}  // namespace lyre::test
