#include "libclient/vain_rounds.h"

#include <gtest/gtest.h>

namespace lyre::client {
namespace {

constexpr Nanos kShort = CoreContention::kHandover - nanos(1);

/// Rounds until the caller polls in vain, each so long after the last; at most 100.
int rounds_in_vain(VainRounds& rounds, Nanos& now, Nanos each) {
  for (int i = 1; i < 100; ++i) {
    now += each;
    if (rounds.on_round(now)) return i;
  }
  return 100;
}

TEST(VainRounds, AreManyShortOnesInARow) {
  VainRounds rounds;
  Nanos now = seconds(1);
  EXPECT_FALSE(rounds.on_round(now));
  EXPECT_EQ(VainRounds::kRoundsMin, rounds_in_vain(rounds, now, kShort));
  EXPECT_EQ(1, rounds_in_vain(rounds, now, kShort)) << "it goes on";
}

TEST(VainRounds, AreNotThoseInWhichAnotherThreadRuns) {
  VainRounds rounds;
  Nanos now = seconds(1);
  EXPECT_EQ(100, rounds_in_vain(rounds, now, CoreContention::kHandover));
}

TEST(VainRounds, BeginAnewAfterASleep) {
  VainRounds rounds;
  Nanos now = seconds(1);
  rounds_in_vain(rounds, now, kShort);
  now += micros(50);
  EXPECT_FALSE(rounds.on_round(now));
  EXPECT_EQ(VainRounds::kRoundsMin, rounds_in_vain(rounds, now, kShort));
}

}  // namespace
}  // namespace lyre::client
