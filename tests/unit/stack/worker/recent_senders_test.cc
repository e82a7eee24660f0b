#include "stack/worker/recent_senders.h"

#include <gtest/gtest.h>

#include <set>

namespace lyre::worker {
namespace {

/// The indices that next() gives in one round.
std::multiset<uint32_t> round_of(RecentSenders& senders) {
  std::multiset<uint32_t> out;
  for (size_t i = 0; i < RecentSenders::kKept; ++i) out.insert(senders.next().index);
  return out;
}

constexpr uint32_t kNone = channel::SessionName{}.index;

TEST(RecentSenders, AtFirstThereIsNone) {
  RecentSenders senders;
  EXPECT_EQ(round_of(senders).count(kNone), RecentSenders::kKept);
}

TEST(RecentSenders, TheOldestMakesRoom) {
  RecentSenders senders;
  for (uint32_t i = 0; i < RecentSenders::kKept + 2; ++i) senders.note({i, 1});
  const std::multiset<uint32_t> kept = round_of(senders);
  EXPECT_EQ(*kept.begin(), 2u);
  EXPECT_EQ(*kept.rbegin(), RecentSenders::kKept + 1);
  EXPECT_EQ(std::set<uint32_t>(kept.begin(), kept.end()).size(), RecentSenders::kKept);
}

TEST(RecentSenders, OneThatSendsAgainAndAgainTakesOnePlace) {
  RecentSenders senders;
  for (int i = 0; i < 100; ++i) senders.note({7, 1});
  EXPECT_EQ(round_of(senders).count(7), 1u);
  EXPECT_EQ(round_of(senders).count(kNone), RecentSenders::kKept - 1);
}

TEST(RecentSenders, AReusedIndexIsAnotherSession) {
  RecentSenders senders;
  senders.note({7, 1});
  senders.note({7, 2});
  EXPECT_EQ(round_of(senders).count(7), 2u);
}

}  // namespace
}  // namespace lyre::worker
