#include "tests/sim/adapter/wires.h"

#include <gtest/gtest.h>

namespace lyre::adapter_sim {
namespace {

constexpr Place kHere{0, 0};
constexpr Place kThere{1, 0};
constexpr Place kOtherPort{1, 1};

class WiresTest : public ::testing::Test {
 protected:
  Wires make(const NetworkSettings& settings) { return Wires(settings, events_, rng_); }
  Events events_;
  Rng rng_{1};
};

TEST_F(WiresTest, APortThatIsDownNeitherSendsNorReceives) {
  Wires wires = make({});
  wires.set_rail(kThere, false);
  EXPECT_FALSE(wires.is_open(kHere, kThere));
  EXPECT_FALSE(wires.is_open(kThere, kHere));
  EXPECT_TRUE(wires.is_open(kHere, kOtherPort));
  wires.set_rail(kThere, true);
  EXPECT_TRUE(wires.is_open(kHere, kThere));
}

TEST_F(WiresTest, WithoutARouterEachRailReachesItself) {
  Wires wires = make({.is_routed = false});
  EXPECT_TRUE(wires.is_open(kHere, kThere));
  EXPECT_FALSE(wires.is_open(kHere, kOtherPort));
}

TEST_F(WiresTest, AHostReachesItselfWhateverBroke) {
  Wires wires = make({.is_routed = false});
  wires.set_rail(kThere, false);
  EXPECT_TRUE(wires.is_open(kThere, kOtherPort));
}

TEST_F(WiresTest, ACutEndsByItself) {
  Wires wires = make({});
  wires.cut(kHere, kThere, events_.now_ns() + kMs);
  EXPECT_FALSE(wires.is_open(kHere, kThere));
  EXPECT_FALSE(wires.is_open(kThere, kHere));
  events_.run_until(events_.now_ns() + kMs);
  EXPECT_TRUE(wires.is_open(kHere, kThere));
}

TEST_F(WiresTest, PacketsOfAPathFollowEachOtherAtItsRate) {
  Wires wires = make({.bytes_per_s = 1'000'000});
  const int64_t first_ns = wires.arrival_ns(kHere, kThere, 940);
  EXPECT_EQ(wires.arrival_ns(kHere, kThere, 940) - first_ns, kMs);
  EXPECT_EQ(static_cast<int64_t>(wires.wire_ns(940)), kMs);
}

TEST_F(WiresTest, ASlowRailSlowsWhatBeginsOrEndsThere) {
  Wires wires =
      make({.delay_ns = 0, .bytes_per_s = 1'000'000, .rail_bytes_per_s = {1'000'000, 100'000}});
  const Place slow{1, 1};
  EXPECT_EQ(wires.arrival_ns({0, 2}, slow, 940) - events_.now_ns(), 10 * kMs);
  EXPECT_EQ(wires.arrival_ns(slow, {0, 2}, 940) - events_.now_ns(), 10 * kMs);
  EXPECT_EQ(wires.arrival_ns({0, 2}, {1, 2}, 940) - events_.now_ns(), kMs);
}

TEST_F(WiresTest, WhatDoesNotFitTheQueueIsRefused) {
  Wires wires = make({.bytes_per_s = 1'000'000, .queue_bytes = 1'500});
  EXPECT_TRUE(wires.takes(kHere, kThere));
  for (int i = 0; i < 2; ++i) wires.arrival_ns(kHere, kThere, 940);
  EXPECT_FALSE(wires.takes(kHere, kThere));
  EXPECT_TRUE(wires.takes(kThere, kHere)) << "the other direction is another path";
  events_.run_until(events_.now_ns() + kMs);
  EXPECT_TRUE(wires.takes(kHere, kThere));
}

TEST_F(WiresTest, AHostSendsNoMoreThanItsLimitWhereverTo) {
  Wires wires = make({.hosts = 3, .delay_ns = 0, .host_bytes_per_s = 1'000'000});
  int64_t last_ns = 0;
  for (int i = 0; i < 1000; ++i) last_ns = wires.arrival_ns(kHere, {1u + i % 2, 0}, 940);
  EXPECT_NEAR(static_cast<double>(last_ns - events_.now_ns()), 1e9, 1e6);
}

TEST_F(WiresTest, ConnectionsOnDifferentPathsOfTheFabricDoNotSlowEachOther) {
  Wires wires = make({.delay_ns = 0, .fabric_path_bytes_per_s = 1'000'000});
  int64_t last_ns[2] = {};
  for (size_t i = 0; i < 1000; ++i) last_ns[i % 2] = wires.arrival_ns(kHere, kThere, 940, i % 2);
  for (const int64_t ns : last_ns) {
    EXPECT_NEAR(static_cast<double>(ns - events_.now_ns()), 5e8, 2e6);
  }
}

TEST_F(WiresTest, ALossyPathTakesTheRest) {
  Wires wires = make({.loss_ppm = 500'000});
  int taken = 0;
  for (int i = 0; i < 1000; ++i) taken += wires.takes(kHere, kThere) ? 1 : 0;
  EXPECT_GT(taken, 400);
  EXPECT_LT(taken, 600);
}

}  // namespace
}  // namespace lyre::adapter_sim
