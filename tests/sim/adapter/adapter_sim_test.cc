// Worlds of the NCCL plugin, as lyre-adapter-sim runs them.
#include <gtest/gtest.h>

#include "tests/sim/adapter/world.h"
#include "tests/sim/seeds.h"
#include "tests/support/sanitized.h"

namespace lyre::adapter_sim {
namespace {

const uint64_t kSeeds = sim::affordable(test::kIsSanitized ? 5 : 25);

Outcome run(const std::string& scenario, uint64_t seed) {
  World world(make_plan(scenario, seed), false);
  return world.run();
}

class AdapterWorld : public ::testing::TestWithParam<std::string> {};

TEST_P(AdapterWorld, KeepsItsInvariants) {
  uint64_t messages = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Outcome outcome = run(GetParam(), seed);
    messages += outcome.messages;
    EXPECT_EQ(outcome.wrong, "") << "replay: lyre-adapter-sim --scenario " << GetParam()
                                 << " --seed " << seed << " --print";
  }
  EXPECT_GT(messages, 0u);
}

TEST_P(AdapterWorld, EqualSeedsGiveEqualTraces) {
  const Outcome first = run(GetParam(), 7);
  const Outcome second = run(GetParam(), 7);
  EXPECT_EQ(first.trace, second.trace);
  EXPECT_EQ(first.events, second.events);
  EXPECT_NE(first.trace, run(GetParam(), 8).trace);
}

INSTANTIATE_TEST_SUITE_P(All, AdapterWorld, ::testing::ValuesIn(scenarios()),
                         [](const auto& name) { return name.param; });

// A frame has a header of 32 bytes; the rest of what a world sends goes before there is a queue
// pair.
TEST(AdapterWorldQueuePairs, CarryTheDataOfCommsThatHaveThem) {
  uint64_t bytes = 0;
  uint64_t rdma_bytes = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Outcome outcome = run("queue_pairs", seed);
    bytes += outcome.bytes;
    rdma_bytes += outcome.rdma_bytes;
  }
  EXPECT_GT(rdma_bytes, bytes / 2);
}

TEST(AdapterWorldQueuePairs, BreakInTheWorldsThatAreMadeForThat) {
  uint64_t broken = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) broken += run("fail_over", seed).rdma_broken;
  EXPECT_GT(broken, kSeeds);
}

// All devices fall silent, on both sides: nothing but the time without a completion tells.
TEST(AdapterWorldQueuePairs, AreGivenUpWhereDevicesCompleteNothing) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Plan plan = make_plan("queue_pairs", seed);
    plan.checks_queue_pairs = false;
    plan.faults.clear();
    for (size_t host = 0; host < plan.network.hosts; ++host) {
      plan.faults.push_back({.kind = Fault::Kind::kDevicesFall,
                             .at_ns = kSecond,
                             .lasts_ns = 10'000 * kSecond,
                             .host = host});
    }
    for (LinkPlan& link : plan.links) {
      for (size_t i = link.messages.size() / 2; i < link.messages.size(); ++i) {
        link.messages[i].send_at_ns += kSecond + kSecond / 2;
      }
    }
    World world(plan, false);
    EXPECT_EQ(world.run().wrong, "") << seed;
  }
}

// Without the word that goes before what is sent again, seed 49 fails.
TEST(AdapterWorldQueuePairs, WriteMostOfTheBytesAndSomeOfThemLate) {
  Outcome total;
  for (uint64_t seed = 41; seed <= 55; ++seed) {
    const Outcome outcome = run("late_writes", seed);
    EXPECT_EQ(outcome.wrong, "") << seed;
    total.bytes += outcome.bytes;
    total.rdma_written_bytes += outcome.rdma_written_bytes;
    total.rdma_late += outcome.rdma_late;
  }
  EXPECT_GT(total.rdma_written_bytes, total.bytes / 2);
  EXPECT_GT(total.rdma_late, 20u);
}

// What the simulator found, each by the seed that showed it.
TEST(AdapterWorldFound, TheFirstStreamsPairIsThatOfTheWholeList) {
  EXPECT_EQ(run("return", 32).wrong, "");
}

TEST(AdapterWorldFound, DialsDoNotSpendTheirTurnsWhereThereIsNoRouter) {
  EXPECT_EQ(run("daemons", 293).wrong, "");
  EXPECT_EQ(run("daemons", 321).wrong, "");
}

TEST(AdapterWorldFound, TcpsTimerOnASlowWireIsNoStall) {
  EXPECT_EQ(run("slow", 34).wrong, "");
  EXPECT_EQ(run("slow", 298).wrong, "");
}

TEST(AdapterWorldFound, WhoWasStoppedStillWaitsForTheLastWords) {
  EXPECT_EQ(run("daemons", 306).wrong, "");
}

// Of the simulator itself: a pause must not bring a rank of a dead host back.
TEST(AdapterWorldFound, APauseEndsNoLongerOne) { EXPECT_EQ(run("everything", 7023).wrong, ""); }

// A stream's home pair may need a router that does not exist.
TEST(AdapterWorldFound, StreamsComeBackOverThePairThatCarriedThem) {
  EXPECT_EQ(run("resume", 20542).wrong, "");
}

// A dial ended at its deadline, which was the moment after its handshake: the answer, which is
// given once, was lost.
TEST(AdapterWorldFound, AHelloHasTimeAfterALateHandshake) {
  EXPECT_EQ(run("fail_over_everything", 12241).wrong, "");
  EXPECT_EQ(run("fail_over_everything", 12398).wrong, "");
}

// Of the simulator itself: ranks that leave must not stand still while others do.
TEST(AdapterWorldFound, RanksLeaveOneAfterAnother) {
  EXPECT_EQ(run("fail_over_everything", 11588).wrong, "");
}

TEST(AdapterWorldFound, AnOpenCommThatFinalizeClosesIsAnsweredFor) {
  EXPECT_EQ(run("daemons", 44).wrong, "");
}

}  // namespace
}  // namespace lyre::adapter_sim
