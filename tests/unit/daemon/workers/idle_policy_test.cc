#include "daemon/workers/idle_policy.h"

#include <gtest/gtest.h>

#include "daemon/base/daemon_limits.h"

namespace lyre {
namespace {

using Action = IdlePolicy::Action;

constexpr Nanos kAwake = millis(100);

TEST(IdlePolicy, BusyNeverPauses) {
  IdlePolicy policy(IdleMode::kBusy, micros(50), kAwake);
  EXPECT_EQ(policy.after_turn(0, seconds(1), kNever).action, Action::kPoll);
  EXPECT_EQ(policy.after_turn(0, seconds(99), kNever).action, Action::kPoll);
}

TEST(IdlePolicy, AdaptiveYieldsAtOnceAndSleepsAfterItsSpin) {
  IdlePolicy policy(IdleMode::kAdaptive, micros(50), kAwake);
  EXPECT_EQ(policy.after_turn(3, seconds(1), kNever).action, Action::kPoll);
  EXPECT_EQ(policy.after_turn(0, seconds(1) + micros(1), kNever).action, Action::kYield);
  EXPECT_EQ(policy.after_turn(0, seconds(1) + micros(49), kNever).action, Action::kYield);
  const auto decision = policy.after_turn(0, seconds(1) + micros(50), kNever);
  EXPECT_EQ(decision.action, Action::kSleep);
  EXPECT_EQ(decision.sleep, kSleepMax);
}

TEST(IdlePolicy, UnsureSleepsGrowToTheirBoundAndStartAgainAfterWork) {
  IdlePolicy policy(IdleMode::kAdaptive, nanos(0), kAwake);
  Nanos now = seconds(1);
  policy.after_turn(1, now, kNever);
  EXPECT_EQ(policy.after_turn(0, now, kNever).unsure_sleep, kUnsureSleepMin);
  EXPECT_EQ(policy.after_turn(0, now, kNever).unsure_sleep, kUnsureSleepMin * 2);
  for (int i = 0; i < 20; ++i) {
    EXPECT_LE(policy.after_turn(0, now, kNever).unsure_sleep, kUnsureSleepMax);
  }
  now += seconds(1);
  for (int i = 0; i < 20; ++i) policy.after_turn(0, now, kNever);
  EXPECT_EQ(policy.after_turn(0, now, kNever).unsure_sleep, kUnsureSleepIdle);
  policy.after_turn(1, now, kNever);
  EXPECT_EQ(policy.after_turn(0, now, kNever).unsure_sleep, kUnsureSleepMin);
}

/// Turns that find nothing, each followed by a yield that gives a slice away, until the policy
/// knows that a thread computes. Returns when the last yield ended.
Nanos lose_slices(IdlePolicy& policy, Nanos now) {
  for (int i = 0; i < CoreContention::kSlicesInARow; ++i) {
    now += micros(1);
    EXPECT_EQ(policy.after_turn(0, now, kNever).action, Action::kYield);
    now += millis(3);
    EXPECT_EQ(policy.after_turn(1, now, kNever).action, Action::kPoll);
  }
  return now;
}

TEST(IdlePolicy, ASliceIsFreeWhereNothingCameMeanwhile) {
  IdlePolicy policy(IdleMode::kAdaptive, micros(50), kAwake);
  Nanos now = seconds(1);
  for (const size_t found : {size_t{0}, size_t{1}}) {
    policy.after_turn(1, now += micros(1), kNever);
    EXPECT_EQ(policy.after_turn(0, now += micros(1), kNever).action, Action::kYield);
    policy.after_turn(found, now += CoreContention::kSlice, kNever);
    EXPECT_EQ(policy.has_given_freely(), found == 0);
  }
  policy.after_turn(1, now += millis(3), kNever);
  EXPECT_FALSE(policy.has_given_freely()) << "it had not yielded";
}

TEST(IdlePolicy, AdaptiveSleepsInsteadOfYieldingWhileSomebodyComputesOnItsCore) {
  IdlePolicy policy(IdleMode::kAdaptive, micros(50), kAwake);
  Nanos now = seconds(1);
  policy.after_turn(1, now, kNever);
  now = lose_slices(policy, now) + micros(1);
  EXPECT_EQ(policy.after_turn(0, now, kNever).action, Action::kPoll);
  now += ContendedPoll::kLongest;
  EXPECT_EQ(policy.after_turn(0, now, kNever).action, Action::kSleep);
  // What is due at once is waited for by polling: a yield would give a slice away.
  EXPECT_EQ(policy.after_turn(0, now, now + micros(2)).action, Action::kPoll);
  now += CoreContention::kMemoryMax;
  policy.after_turn(1, now, kNever);
  now += micros(1);
  EXPECT_EQ(policy.after_turn(0, now, kNever).action, Action::kYield);
}

/// Turns that find nothing, each after so much work and followed by a yield that takes so long.
/// Returns when the last ended.
Nanos yield_often(IdlePolicy& policy, Nanos took, Nanos now,
                  size_t work = 2 * VainPolls::kStretchMin) {
  for (uint32_t i = 0; i < 2 * VainPolls::kYieldsMin; ++i) {
    policy.after_turn(work, now, kNever);
    policy.after_turn(0, now, kNever);
    now += took;
  }
  return now;
}

TEST(IdlePolicy, OnACrowdedHostItSleepsAtOnceWhereItsYieldsReachNobody) {
  IdlePolicy policy(IdleMode::kAdaptive, micros(50), kAwake);
  Nanos now = yield_often(policy, nanos(700), seconds(1));
  policy.on_look(true);
  policy.after_turn(1, now, kNever);
  EXPECT_EQ(policy.after_turn(0, now, kNever).action, Action::kSleep);
  // What is due at once is waited for by polling.
  EXPECT_EQ(policy.after_turn(0, now, now + micros(2)).action, Action::kPoll);
  policy.on_look(false);
  EXPECT_EQ(policy.after_turn(0, now, kNever).action, Action::kYield);
}

TEST(IdlePolicy, OnACrowdedHostItPollsForSmallMessagesInARow) {
  IdlePolicy policy(IdleMode::kAdaptive, micros(50), kAwake);
  const Nanos now = yield_often(policy, nanos(700), seconds(1), VainPolls::kStretchMin / 2);
  policy.on_look(true);
  policy.after_turn(1, now, kNever);
  EXPECT_EQ(policy.after_turn(0, now, kNever).action, Action::kYield);
}

TEST(IdlePolicy, OnACrowdedHostItPollsWhereItsYieldsReachSomebody) {
  IdlePolicy policy(IdleMode::kAdaptive, micros(50), kAwake);
  const Nanos now = yield_often(policy, micros(10), seconds(1));
  policy.on_look(true);
  policy.after_turn(1, now, kNever);
  EXPECT_EQ(policy.after_turn(0, now, kNever).action, Action::kYield);
}

TEST(IdlePolicy, OnACrowdedHostItDoesNotPollBesideAComputingThreadEither) {
  IdlePolicy policy(IdleMode::kAdaptive, micros(50), kAwake);
  Nanos now = yield_often(policy, nanos(700), seconds(1));
  policy.after_turn(0, now, kNever);
  now += millis(3);  // a thread out of reach took a slice
  policy.after_turn(1, now, kNever);
  EXPECT_EQ(policy.after_turn(0, now, kNever).action, Action::kPoll);
  policy.on_look(true);
  EXPECT_EQ(policy.after_turn(0, now, kNever).action, Action::kSleep);
}

TEST(IdlePolicy, TimeInASleepIsNoYield) {
  IdlePolicy policy(IdleMode::kAdaptive, nanos(0), kAwake);
  EXPECT_EQ(policy.after_turn(0, seconds(1), kNever).action, Action::kSleep);
  policy.after_turn(1, seconds(2), kNever);
  EXPECT_EQ(policy.after_turn(0, seconds(2), seconds(2) + micros(1)).action, Action::kYield);
}

TEST(IdlePolicy, UnsureSleepsStayShortAfterWorkWhileSomebodyComputes) {
  IdlePolicy policy(IdleMode::kAdaptive, micros(50), kAwake);
  Nanos now = seconds(1);
  policy.after_turn(1, now, kNever);
  now = lose_slices(policy, now);
  policy.after_turn(0, now, kNever);  // the start of a poll, which is over below
  for (int i = 0; i < 20; ++i) {
    const Nanos at = now + ContendedPoll::kLongest + micros(i);
    EXPECT_EQ(policy.after_turn(0, at, kNever).unsure_sleep, kUnsureSleepContended);
  }
  EXPECT_EQ(policy.after_turn(0, now + kUnsureContendedFor, kNever).unsure_sleep, kUnsureSleepMin);
}

TEST(IdlePolicy, NeverSleepsPastADeadline) {
  IdlePolicy policy(IdleMode::kAdaptive, nanos(0), kAwake);
  EXPECT_EQ(policy.after_turn(0, seconds(1), seconds(1) + millis(3)).sleep, millis(3));
  EXPECT_EQ(policy.after_turn(0, seconds(1), seconds(1) + micros(2)).action, Action::kYield);
  EXPECT_EQ(policy.after_turn(0, seconds(1), millis(1)).action, Action::kYield);
}

void take_submissions(IdlePolicy& policy, Nanos now, size_t count = ShortGaps::kWorthwhile) {
  policy.on_submissions(count, now);
  policy.after_turn(count, now, kNever);
}

/// Submissions after each of so many gaps. Returns when the last came.
Nanos work_after_gaps(IdlePolicy& policy, Nanos now, int gaps, Nanos gap,
                      size_t count = ShortGaps::kWorthwhile) {
  take_submissions(policy, now, count);
  for (int i = 0; i < gaps; ++i) take_submissions(policy, now += gap, count);
  return now;
}

TEST(IdlePolicy, StaysAwakeAtTheEndOfAJobsGapsAndNoLonger) {
  IdlePolicy policy(IdleMode::kAdaptive, micros(50), kAwake);
  Nanos now = work_after_gaps(policy, seconds(1), ShortGaps::kInARow - 1, millis(40));
  EXPECT_EQ(policy.after_turn(0, now + millis(39), kNever).action, Action::kSleep) << "too few";
  now += millis(40);
  take_submissions(policy, now);
  EXPECT_FALSE(policy.after_turn(0, now + micros(1), kNever).is_step_due) << "a step's own wait";
  for (const Nanos wait : {millis(20), kAwake}) {
    const auto decision = policy.after_turn(0, now + wait, kNever);
    EXPECT_EQ(decision.action, Action::kYield);
    EXPECT_TRUE(decision.is_step_due);
  }
  EXPECT_EQ(policy.after_turn(0, now + kAwake + nanos(1), kNever).action, Action::kSleep);
  // The job was not back in time: its gaps have to be short again before one is waited for.
  now += kAwake + millis(1);
  take_submissions(policy, now);
  EXPECT_EQ(policy.after_turn(0, now + millis(39), kNever).action, Action::kSleep);
}

TEST(IdlePolicy, SleepsAtTheStartOfAJobsGaps) {
  IdlePolicy policy(IdleMode::kAdaptive, micros(50), kAwake);
  Nanos now = work_after_gaps(policy, seconds(1), ShortGaps::kInARow, millis(40));
  const auto decision = policy.after_turn(0, now + millis(1), kNever);
  EXPECT_EQ(decision.action, Action::kSleep);
  EXPECT_EQ(decision.sleep, millis(19));
  // The shortest of the last gaps counts.
  take_submissions(policy, now += millis(20));
  EXPECT_EQ(policy.after_turn(0, now + millis(15), kNever).action, Action::kYield);
  now = work_after_gaps(policy, now, ShortGaps::kInARow, millis(40));
  EXPECT_EQ(policy.after_turn(0, now + millis(15), kNever).action, Action::kSleep);
}

TEST(IdlePolicy, WaitsWithinAStepAreNoGaps) {
  IdlePolicy policy(IdleMode::kAdaptive, micros(50), kAwake);
  const Nanos now = work_after_gaps(policy, seconds(1), 100, ShortGaps::kShortest - nanos(1));
  EXPECT_EQ(policy.after_turn(0, now + millis(1), kNever).action, Action::kSleep);
}

TEST(IdlePolicy, YieldsThroughThePausesWithinAJobsStep) {
  IdlePolicy policy(IdleMode::kAdaptive, micros(50), kAwake);
  Nanos now = work_after_gaps(policy, seconds(1), ShortGaps::kInARow - 1, millis(40));
  EXPECT_EQ(policy.after_turn(0, now + micros(50), kNever).action, Action::kSleep) << "no job yet";
  take_submissions(policy, now += millis(40));
  const auto decision = policy.after_turn(0, now + micros(399), kNever);
  EXPECT_EQ(decision.action, Action::kYield);
  EXPECT_FALSE(decision.is_step_due);
  EXPECT_EQ(policy.after_turn(0, now + ShortGaps::kStepPause, kNever).action, Action::kSleep);
}

TEST(IdlePolicy, SleepsInTheGapsOfAJobWhileSomebodyComputesOnItsCore) {
  IdlePolicy policy(IdleMode::kAdaptive, micros(50), kAwake);
  Nanos now = work_after_gaps(policy, seconds(1), ShortGaps::kInARow, millis(30));
  now = lose_slices(policy, now) + ContendedPoll::kLongest;
  EXPECT_EQ(policy.after_turn(0, now, kNever).action, Action::kSleep);
}

TEST(IdlePolicy, AHeartbeatIsNoJob) {
  IdlePolicy policy(IdleMode::kAdaptive, micros(50), kAwake);
  const Nanos now =
      work_after_gaps(policy, seconds(1), 100, millis(30), ShortGaps::kWorthwhile / 4);
  EXPECT_EQ(policy.after_turn(0, now + millis(29), kNever).action, Action::kSleep);
}

TEST(IdlePolicy, PacketsForNobodyAreNoJob) {
  IdlePolicy policy(IdleMode::kAdaptive, micros(50), kAwake);
  Nanos now = seconds(1);
  for (int i = 0; i < 100; ++i) {
    policy.after_turn(4 * ShortGaps::kWorthwhile, now += millis(30), kNever);
  }
  EXPECT_EQ(policy.after_turn(0, now + millis(29), kNever).action, Action::kSleep);
}

TEST(IdlePolicy, ASmallStepBetweenLargeOnesIsOneOfTheJob) {
  IdlePolicy policy(IdleMode::kAdaptive, micros(50), kAwake);
  Nanos now = work_after_gaps(policy, seconds(1), ShortGaps::kInARow, millis(30),
                              4 * ShortGaps::kWorthwhile);
  take_submissions(policy, now += millis(30), 1);
  EXPECT_EQ(policy.after_turn(0, now + millis(29), kNever).action, Action::kYield);
}

TEST(IdlePolicy, NeverStaysAwakeWhereItIsToldSo) {
  IdlePolicy policy(IdleMode::kAdaptive, micros(50), Nanos{0});
  const Nanos now = work_after_gaps(policy, seconds(1), 100, millis(30));
  EXPECT_EQ(policy.after_turn(0, now + millis(29), kNever).action, Action::kSleep);
}

}  // namespace
}  // namespace lyre
