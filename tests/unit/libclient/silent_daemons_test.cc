#include "libclient/silent_daemons.h"

#include <gtest/gtest.h>

#include <string>

namespace lyre::client {
namespace {

constexpr int kWhole = SilentDaemons::kPatienceMs;
constexpr int kShort = SilentDaemons::kShortPatienceMs;
constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kBegin = 1000 * kSecondNs;
constexpr int64_t kMinuteNs = 60 * kSecondNs;

TEST(SilentDaemonsTest, AnUpgradeIsWaitedForWhereNothingIsKnown) {
  SilentDaemons daemons;
  EXPECT_EQ(kWhole, daemons.patience_ms("a", kBegin));
  daemons.on_answer("a", kBegin);
  EXPECT_EQ(kWhole, daemons.patience_ms("a", kBegin));
}

// Each of a job's communicators waited a minute for a daemon that was stopped.
TEST(SilentDaemonsTest, TheSilenceOfOneIsKnownToFurtherQuestions) {
  SilentDaemons daemons;
  int64_t now_ns = kBegin;
  int waited_ms = 0;
  for (int i = 0; i < 100; ++i) {
    const int patience_ms = daemons.patience_ms("a", now_ns);
    const int64_t asked_ns = now_ns;
    now_ns += int64_t{patience_ms} * 1'000'000;
    daemons.on_silence("a", asked_ns, now_ns);
    waited_ms += patience_ms;
  }
  EXPECT_EQ(kWhole + 99 * kShort, waited_ms);
  EXPECT_EQ(kWhole, daemons.patience_ms("b", now_ns)) << "another daemon";
}

TEST(SilentDaemonsTest, AnAnswerEndsIt) {
  SilentDaemons daemons;
  daemons.on_silence("a", kBegin, kBegin + kMinuteNs);
  EXPECT_EQ(kShort, daemons.patience_ms("a", kBegin + kMinuteNs));
  daemons.on_answer("a", kBegin + kMinuteNs + 1);
  EXPECT_EQ(kWhole, daemons.patience_ms("a", kBegin + kMinuteNs + 2));
}

TEST(SilentDaemonsTest, AnAnswerToAnotherThreadMeanwhileCounts) {
  SilentDaemons daemons;
  daemons.on_silence("a", kBegin, kBegin + kMinuteNs);
  daemons.on_answer("a", kBegin + 2 * kMinuteNs);
  daemons.on_silence("a", kBegin + 2 * kMinuteNs - 1, kBegin + 3 * kMinuteNs);
  EXPECT_EQ(kWhole, daemons.patience_ms("a", kBegin + 3 * kMinuteNs));
}

TEST(SilentDaemonsTest, ItIsForgotten) {
  SilentDaemons daemons;
  const int64_t silent_ns = kBegin + kMinuteNs;
  daemons.on_silence("a", kBegin, silent_ns);
  EXPECT_EQ(kShort, daemons.patience_ms("a", silent_ns + SilentDaemons::kFreshNs - 1));
  EXPECT_EQ(kWhole, daemons.patience_ms("a", silent_ns + SilentDaemons::kFreshNs));
}

TEST(SilentDaemonsTest, MoreThanThereIsRoomForHaveTheWholePatience) {
  SilentDaemons daemons;
  for (int i = 0; i < 100; ++i) {
    daemons.on_silence("daemon " + std::to_string(i), kBegin, kBegin + kMinuteNs);
  }
  EXPECT_EQ(kShort, daemons.patience_ms("daemon 0", kBegin + kMinuteNs));
  EXPECT_EQ(kWhole, daemons.patience_ms("daemon 99", kBegin + kMinuteNs));
  daemons.on_answer("daemon 99", kBegin + kMinuteNs);
}

}  // namespace
}  // namespace lyre::client
