#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <utility>

#include "tests/sim/seeds.h"
#include "tests/sim/world/world_drivers.h"
#include "tests/sim/world/world_scenarios.h"
#include "tests/support/sanitized.h"

namespace lyre::sim {
namespace {

using test::kIsSanitized;

/// Where each seed is run more than once.
constexpr uint64_t kRepeatedSeeds = kIsSanitized ? 1 : 3;

/// Some hundred thousand connections in all. `lyre-sim --hours` runs more.
uint64_t seed_count(const std::string& name) {
  static const std::map<std::string, uint64_t> kCounts = {
      {"hosts_short", 1000}, {"hosts_storm", 500}, {"hosts_bottleneck", 10}};
  const auto found = kCounts.find(name);
  return affordable((found == kCounts.end() ? 80 : found->second) / (kIsSanitized ? 16 : 1) + 1);
}

WorldOutcome run(const std::string& name, uint64_t seed) {
  return World(*make_world(name, seed)).run();
}

class EveryWorld : public testing::TestWithParam<std::string> {};

TEST_P(EveryWorld, KeepsItsPromisesAndLeavesNothingBehind) {
  uint64_t connections = 0;
  for (uint64_t seed = 1; seed <= seed_count(GetParam()); ++seed) {
    const WorldOutcome outcome = run(GetParam(), seed);
    ASSERT_EQ(outcome.failure, "") << "lyre-sim --scenario " << GetParam() << " --seed " << seed;
    connections += outcome.connections;
  }
  EXPECT_GT(connections, seed_count(GetParam()));
}

TEST_P(EveryWorld, RunsTheSameFromTheSameSeed) {
  for (uint64_t seed = 1; seed <= kRepeatedSeeds; ++seed) {
    EXPECT_EQ(run(GetParam(), seed).trace_hash, run(GetParam(), seed).trace_hash) << seed;
  }
  EXPECT_NE(run(GetParam(), 1).trace_hash, run(GetParam(), 2).trace_hash);
}

/// Snapshot and restore: an engine with another's state continues exactly as the other would have.
TEST_P(EveryWorld, DoesNotNoticeThatItsEnginesAreReplaced) {
  for (uint64_t seed = 1; seed <= kRepeatedSeeds; ++seed) {
    WorldPlan plain = *make_world(GetParam(), seed);
    WorldPlan replaced = plain;
    plain.replace_engine_ppm = replaced.replace_engine_ppm = 0;
    for (int i = 0; i < 50; ++i) {
      const Nanos at = seconds(1) + millis(1 + 13 * i);
      plain.events.push_back({at, [](World&) {}});
      replaced.events.push_back({at, [](World& world) { world.replace_engines(); }});
    }
    const WorldOutcome before = World(std::move(plain)).run();
    const WorldOutcome after = World(std::move(replaced)).run();
    EXPECT_EQ(before.trace_hash, after.trace_hash) << GetParam() << " seed " << seed;
    EXPECT_EQ(before.turns, after.turns);
  }
}

/// Whatever the ports' driver does, and whether their devices fail in the midst of a burst.
TEST_P(EveryWorld, WorksWithEveryDriver) {
  const uint64_t seeds = std::min<uint64_t>(kIsSanitized ? 2 : 10, seed_count(GetParam()));
  for (const std::string& driver : driver_names()) {
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      WorldPlan plan = *make_world(GetParam(), seed);
      ASSERT_TRUE(use_driver(plan, driver));
      ASSERT_EQ(World(std::move(plan)).run().failure, "")
          << "lyre-sim --scenario " << GetParam() << " --driver " << driver << " --seed " << seed;
    }
  }
}

WorldOutcome run_without_merging(const std::string& name, uint64_t seed) {
  WorldPlan plan = *make_world(name, seed);
  for (WorldHostOptions& host : plan.hosts) host.merge_received = false;
  return World(std::move(plan)).run();
}

/// Of the dialogs that were opened in both runs.
void expect_same_streams(const WorldOutcome& a, const WorldOutcome& b, const std::string& which) {
  ASSERT_EQ(a.dialog_hashes.size(), b.dialog_hashes.size());
  for (size_t i = 0; i < a.dialog_hashes.size(); ++i) {
    if (!a.dialog_hashes[i] || !b.dialog_hashes[i]) continue;
    EXPECT_EQ(*a.dialog_hashes[i], *b.dialog_hashes[i]) << which << " dialog " << i;
  }
}

/// Merging may change when ACKs are sent, but not what an application receives.
TEST_P(EveryWorld, HearsTheSameWhetherSegmentsAreMergedOrNot) {
  for (uint64_t seed = 1; seed <= std::min<uint64_t>(10, seed_count(GetParam())); ++seed) {
    const WorldOutcome alone = run_without_merging(GetParam(), seed);
    EXPECT_EQ(alone.failure, "") << "lyre-sim --no-merge --scenario " << GetParam() << " --seed "
                                 << seed;
    expect_same_streams(run(GetParam(), seed), alone, GetParam() + " " + std::to_string(seed));
  }
}

INSTANTIATE_TEST_SUITE_P(World, EveryWorld, testing::ValuesIn(world_names()),
                         [](const auto& param_info) { return param_info.param; });

/// The faults that the scenarios are made for occur, at least with some of their seeds.
TEST(World, HarmsWhatItSaysItHarms) {
  const auto sum = [](const std::string& name, uint64_t WorldOutcome::*count) {
    uint64_t total = 0;
    for (uint64_t seed = 1; seed <= 4; ++seed) total += run(name, seed).*count;
    return total;
  };
  for (const char* name : {"hosts_mtu", "hosts_blackhole"}) {
    EXPECT_GT(sum(name, &WorldOutcome::frames_too_big), 0u) << name;
  }
  for (const char* name : {"hosts_rough", "hosts_bursts", "hosts_bottleneck", "hosts_partition"}) {
    EXPECT_GT(sum(name, &WorldOutcome::frames_lost), 0u) << name;
  }
}

/// Of the first seeds of a scenario.
HostCounts counts_of(const std::string& name, uint64_t seeds) {
  HostCounts all;
  for (uint64_t seed = 1; seed <= seeds; ++seed) all += run(name, seed).counts;
  return all;
}

TEST(World, FullRingsMissFrames) { EXPECT_GT(counts_of("hosts_rings", 4).frames_missed, 0u); }

TEST(World, WorkersOfLateHostsAreTold) { EXPECT_GT(counts_of("hosts_late", 20).standstills, 0u); }

TEST(World, ConnectionsHaveThe4TuplesOfEarlierOnes) {
  EXPECT_GT(run("hosts_reuse", 1).reused_tuples + run("hosts_reuse", 2).reused_tuples, 0u);
}

uint64_t standstills_told_of(std::initializer_list<Nanos> spans, bool is_asleep = false) {
  WorldPlan plan = *make_world("hosts_calm", 1);
  plan.needs_no_timers = false;
  Nanos at = seconds(17);  // the addresses are verified, and no dialog has begun: the hosts sleep
  for (const Nanos span : spans) {
    plan.events.push_back(
        {at, [span, is_asleep](World& world) { world.stand_still(0, span, is_asleep); }});
    at += seconds(1);
  }
  return World(std::move(plan)).run().counts.standstills;
}

TEST(World, TellsWorkersOfStandstills) {
  EXPECT_EQ(standstills_told_of({millis(9), millis(9), millis(150)}), 0u);
  EXPECT_EQ(standstills_told_of({millis(150), millis(60)}), 1u) << "slices add up";
  EXPECT_EQ(standstills_told_of({millis(250), millis(300)}), 2u);
  EXPECT_EQ(standstills_told_of({millis(250)}, true), 0u) << "within a sleep";
}

/// The invariant of hosts_calm, in worlds that break its condition.
TEST(World, SaysSoWhenATimerRepairedSomething) {
  std::string failures;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    WorldPlan plan = *make_world("hosts_calm", seed);
    plan.may_be_unreachable = true;
    plan.paths[0].loss_ppm = 100'000;
    failures += World(std::move(plan)).run().failure;
  }
  EXPECT_NE(failures.find("nothing was lost, and there were"), std::string::npos) << failures;
}

/// SACK and tail probes repair these losses before a timeout does.
TEST(World, SaysSoWhenSomethingWasSentAgainWithoutATimeout) {
  uint64_t repaired = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    WorldPlan plan = *make_world("hosts_calm", seed);
    plan.may_be_unreachable = true;
    plan.paths[0].loss_ppm = 5'000;
    for (WorldHostOptions& host : plan.hosts) host.connection.sack = true;
    const WorldOutcome outcome = World(std::move(plan)).run();
    if (outcome.counts.timeouts > 0 || outcome.counts.probes_in > 0) continue;
    if (outcome.counts.retransmitted_bytes == 0) continue;
    ++repaired;
    EXPECT_NE(outcome.failure.find(" retransmitted bytes"), std::string::npos) << outcome.failure;
  }
  EXPECT_GT(repaired, 0u);
}

TEST(World, DialogsThatWereNotOpenedHaveNoHash) {
  WorldPlan plan = *make_world("hosts_short", 1);
  plan.may_be_unreachable = true;
  for (io::sim::PathOptions& path : plan.paths) path.loss_ppm = 1'000'000;
  const WorldOutcome outcome = World(std::move(plan)).run();
  EXPECT_EQ(outcome.failure, "");
  const auto has_hash = [](const auto& hash) { return hash.has_value(); };
  EXPECT_TRUE(std::ranges::none_of(outcome.dialog_hashes, has_hash));
  EXPECT_TRUE(std::ranges::all_of(run("hosts_short", 1).dialog_hashes, has_hash));
}

TEST(World, MergesUnlessToldNotTo) {
  const char* name = "hosts_mtu";
  EXPECT_NE(run(name, 1).trace_hash, run_without_merging(name, 1).trace_hash);
}

TEST(World, SaysSoWhenAWireThatIsNeverMendedLeavesADialogOpen) {
  WorldPlan plan = *make_world("hosts_rough", 1);
  plan.time_max = seconds(100);
  plan.events.push_back(
      {seconds(1) + millis(500), [](World& world) { world.link().set_up(false); }});
  const WorldOutcome outcome = World(std::move(plan)).run();
  EXPECT_NE(outcome.failure.find("stuck"), std::string::npos) << outcome.failure;
}

/// Devices that fail lose frames that the same world does not lose without them.
TEST(World, DevicesThatFailLoseFrames) {
  for (const char* driver : {"resets", "goes"}) {
    WorldPlan plan = *make_world("hosts_short", 1);
    ASSERT_TRUE(use_driver(plan, driver));
    EXPECT_GT(World(std::move(plan)).run().frames_lost, run("hosts_short", 1).frames_lost);
  }
}

TEST(Worlds, UnknownDriverIsRefused) {
  WorldPlan plan = *make_world("hosts_short", 1);
  EXPECT_FALSE(use_driver(plan, "no_such"));
}

TEST(Worlds, UnknownNameIsRefused) { EXPECT_FALSE(make_world("no_such", 1).has_value()); }

}  // namespace
}  // namespace lyre::sim
