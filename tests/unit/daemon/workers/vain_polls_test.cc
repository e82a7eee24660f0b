#include "daemon/workers/vain_polls.h"

#include <gtest/gtest.h>

namespace lyre {
namespace {

/// Stretches of so much work, each before an idle turn.
void work_in_stretches(VainPolls& polls, size_t work) {
  for (int i = 0; i < 30; ++i) {
    polls.on_turn(work / 2);
    polls.on_turn(work - work / 2);
    polls.on_turn(0);
    polls.on_turn(0);
  }
}

/// A worker in the midst of large messages.
VainPolls polls_of_bulk() {
  VainPolls polls;
  work_in_stretches(polls, 2 * VainPolls::kStretchMin);
  return polls;
}

/// So many yields, of which one in `part` finds a thread (0: none); then a look at the host.
void look(VainPolls& polls, uint32_t part, bool is_crowded = true) {
  for (uint32_t i = 0; i < VainPolls::kYieldsMin; ++i) {
    const bool has_found = part != 0 && i % part == 0;
    polls.on_yield(has_found ? micros(5) : nanos(700));
  }
  polls.on_look(is_crowded);
}

/// How many looks it takes until the worker polls again.
int looks_until_it_polls(VainPolls& polls) {
  int looks = 0;
  for (; polls.must_sleep(); ++looks) polls.on_look(true);
  return looks;
}

TEST(VainPolls, AreThoseOfACrowdedHostWhoseYieldsFindNobody) {
  VainPolls polls;
  look(polls, 0, false);
  work_in_stretches(polls, 2 * VainPolls::kStretchMin);
  EXPECT_FALSE(polls.must_sleep());
  look(polls, 0);
  EXPECT_TRUE(polls.must_sleep());
}

TEST(VainPolls, TellsOfBulkOnACrowdedHost) {
  VainPolls polls = polls_of_bulk();
  EXPECT_FALSE(polls.is_bulk_on_crowded_host());
  polls.on_look(true);
  EXPECT_TRUE(polls.is_bulk_on_crowded_host());
  work_in_stretches(polls, VainPolls::kStretchMin / 2);
  EXPECT_FALSE(polls.is_bulk_on_crowded_host()) << "small messages";
  work_in_stretches(polls, 2 * VainPolls::kStretchMin);
  EXPECT_TRUE(polls.is_bulk_on_crowded_host());
  polls.on_look(false);
  EXPECT_FALSE(polls.is_bulk_on_crowded_host());
}

TEST(VainPolls, AreNotThoseWhoseYieldsFindSomebodyNowAndThen) {
  VainPolls polls = polls_of_bulk();
  for (int i = 0; i < 10; ++i) look(polls, VainPolls::kReachedPart / 2);
  EXPECT_FALSE(polls.must_sleep());
  look(polls, VainPolls::kReachedPart * 2);
  EXPECT_TRUE(polls.must_sleep());
}

TEST(VainPolls, AreNotJudgedByAFew) {
  VainPolls polls = polls_of_bulk();
  for (uint32_t i = 0; i + 1 < VainPolls::kYieldsMin; ++i) polls.on_yield(nanos(700));
  polls.on_look(true);
  EXPECT_FALSE(polls.must_sleep());
}

TEST(VainPolls, AreTriedAgainAfterATimeThatDoubles) {
  VainPolls polls = polls_of_bulk();
  for (int looks = VainPolls::kLooksMin; looks <= VainPolls::kLooksMax; looks *= 2) {
    look(polls, 0);
    EXPECT_EQ(looks_until_it_polls(polls), looks);
  }
  look(polls, 0);
  EXPECT_EQ(looks_until_it_polls(polls), VainPolls::kLooksMax);
  look(polls, 2);  // somebody was found
  look(polls, 0);
  EXPECT_EQ(looks_until_it_polls(polls), VainPolls::kLooksMin);
}

TEST(VainPolls, AreNoneWhileSmallMessagesComeInARow) {
  VainPolls polls = polls_of_bulk();
  look(polls, 0);
  EXPECT_TRUE(polls.must_sleep());
  work_in_stretches(polls, VainPolls::kStretchMin / 2);
  EXPECT_FALSE(polls.must_sleep());
  work_in_stretches(polls, 2 * VainPolls::kStretchMin);
  EXPECT_TRUE(polls.must_sleep());
}

TEST(VainPolls, EndWithTheCrowd) {
  VainPolls polls = polls_of_bulk();
  look(polls, 0);
  polls.on_look(false);
  EXPECT_FALSE(polls.must_sleep());
}

}  // namespace
}  // namespace lyre
