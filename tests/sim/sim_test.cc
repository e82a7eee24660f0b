#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/scenarios.h"
#include "tests/sim/seeds.h"

namespace lyre::sim {
namespace {

/// Enough seeds to cover rare orders of events, few enough for every build. `lyre-sim --count` runs
/// more.
uint64_t seed_count(const std::string& name) { return affordable(name == "lossy_bulk" ? 3 : 150); }

class EveryScenario : public testing::TestWithParam<std::string> {};

TEST_P(EveryScenario, DeliversEveryByteOnceAndEndsAsPromised) {
  for (uint64_t seed = 1; seed <= seed_count(GetParam()); ++seed) {
    const auto scenario = make_scenario(GetParam(), seed);
    ASSERT_TRUE(scenario.has_value());
    const Outcome outcome = run_scenario(*scenario, seed);
    EXPECT_EQ(judge(GetParam(), *scenario, outcome), "")
        << "lyre-sim --scenario " << GetParam() << " --seed " << seed;
  }
}

TEST_P(EveryScenario, RunsTheSameFromTheSameSeed) {
  for (uint64_t seed = 1; seed <= std::min<uint64_t>(10, seed_count(GetParam())); ++seed) {
    const auto scenario = make_scenario(GetParam(), seed);
    EXPECT_EQ(run_scenario(*scenario, seed).trace_hash, run_scenario(*scenario, seed).trace_hash);
  }
}

TEST_P(EveryScenario, GoesOnFromASnapshotAsIfNothingHadHappened) {
  for (uint64_t seed = 1; seed <= std::min<uint64_t>(20, seed_count(GetParam())); ++seed) {
    auto scenario = make_scenario(GetParam(), seed);
    const Outcome plain = run_scenario(*scenario, seed);
    scenario->replace_engine_every_steps = 1 + seed % 7;
    const Outcome restored = run_scenario(*scenario, seed);
    EXPECT_EQ(plain.trace_hash, restored.trace_hash) << GetParam() << " seed " << seed;
    EXPECT_EQ(plain.step_count, restored.step_count);
  }
}

INSTANTIATE_TEST_SUITE_P(Sim, EveryScenario, testing::ValuesIn(scenario_names()),
                         [](const auto& param_info) { return param_info.param; });

/// Every combination of loss, reordering and duplication, from none to much.
TEST(Grid, BulkSurvivesEveryMixOfImpairments) {
  static constexpr uint32_t kLossPpm[] = {0, 1'000, 20'000, 100'000};
  static constexpr uint32_t kReorderPpm[] = {0, 10'000, 300'000};
  static constexpr uint32_t kDuplicatePpm[] = {0, 10'000, 300'000};
  uint64_t seed = 1;
  for (const uint32_t loss : kLossPpm) {
    for (const uint32_t reorder : kReorderPpm) {
      for (const uint32_t duplicate : kDuplicatePpm) {
        auto scenario = make_scenario("bulk", ++seed);
        for (LinkConfig* link : {&scenario->there, &scenario->back}) {
          link->loss_ppm = loss;
          link->reorder_ppm = reorder;
          link->duplicate_ppm = duplicate;
        }
        const Outcome outcome = run_scenario(*scenario, seed);
        EXPECT_EQ(judge("bulk", *scenario, outcome), "")
            << "loss " << loss << " reorder " << reorder << " duplicate " << duplicate;
      }
    }
  }
}

TEST(Wires, LoseWhereTheScenarioIsAboutLoss) {
  for (const char* name : {"loss", "heavy_loss", "slow_reader_loss", "lossy_bulk", "marks_loss"}) {
    EXPECT_GT(run_scenario(*make_scenario(name, 1), 1).lost_count, 0u) << name;
  }
}

TEST(Trace, DiffersWithTheSeed) {
  const auto scenario = make_scenario("loss", 1);
  EXPECT_NE(run_scenario(*scenario, 1).trace_hash, run_scenario(*scenario, 2).trace_hash);
}

TEST(Scenarios, UnknownNameIsRefused) { EXPECT_FALSE(make_scenario("no_such", 1).has_value()); }

}  // namespace
}  // namespace lyre::sim
