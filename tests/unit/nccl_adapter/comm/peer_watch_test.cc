#include "nccl_adapter/comm/peer_watch.h"

#include <gtest/gtest.h>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {
namespace {

constexpr PeerWatch::Situation kAlone{
    .is_any_up = false, .is_answer_due = false, .is_awaiting = true};
constexpr PeerWatch::Situation kUnanswered{
    .is_any_up = false, .is_answer_due = true, .is_awaiting = true};
constexpr int64_t kBegin = 100 * kNsPerSecond;

class PeerWatchTest : public ::testing::Test {
 protected:
  /// Whether it is given up at that moment.
  bool is_away(int64_t after_s, const PeerWatch::Situation& situation = kAlone) {
    return watch_.judge_absence(situation, settings_, kBegin + after_s * kNsPerSecond).has_value();
  }
  bool is_answer_late(int64_t after_s, const PeerWatch::Situation& situation = kUnanswered) {
    return watch_.is_answer_late(situation, settings_, kBegin + after_s * kNsPerSecond);
  }
  Settings settings_{.peer_timeout_s = 30, .resume_s = 10};
  PeerWatch watch_{kBegin};
};

TEST_F(PeerWatchTest, APeerThatEndedIsJudgedWhenNothingIsLeftOfIt) {
  EXPECT_FALSE(watch_.judge_end(kAlone).has_value());
  watch_.note_ended();
  EXPECT_FALSE(watch_.judge_end({.is_any_up = true, .is_awaiting = true}).has_value());
  EXPECT_FALSE(watch_.judge_end({.is_answer_due = true, .is_awaiting = true}).has_value());
  EXPECT_TRUE(watch_.judge_end(kAlone).has_value());
}

TEST_F(PeerWatchTest, ANewSessionRevokesTheEnd) {
  watch_.note_ended();
  watch_.note_attached(kBegin);
  EXPECT_FALSE(watch_.judge_end(kAlone).has_value());
}

// The comm goes on until the receive of its last message is posted.
TEST_F(PeerWatchTest, APeerThatEndedIsGoneBeforeItsLastMessageIsPlaced) {
  watch_.note_unplaced(true);
  EXPECT_FALSE(watch_.is_gone(kAlone));
  watch_.note_ended();
  EXPECT_FALSE(watch_.is_gone({.is_any_up = true, .is_awaiting = true}));
  EXPECT_FALSE(watch_.is_gone({.is_answer_due = true, .is_awaiting = true}));
  EXPECT_TRUE(watch_.is_gone(kAlone));
  EXPECT_FALSE(watch_.judge_end(kAlone).has_value());
  watch_.note_attached(kBegin);
  EXPECT_FALSE(watch_.is_gone(kAlone));
}

TEST_F(PeerWatchTest, APeerThatSaidByeIsGoneWhateverIsLeftOfIt) {
  watch_.note_bye();
  EXPECT_TRUE(watch_.is_gone({.is_any_up = true, .is_awaiting = true}));
}

TEST_F(PeerWatchTest, WithoutASessionThePeerHasTheTimeToResume) {
  EXPECT_FALSE(is_away(0));
  EXPECT_FALSE(is_away(12));  // 10 s and the margin
  EXPECT_TRUE(is_away(13));
}

TEST_F(PeerWatchTest, ASessionStartsThatTimeAnew) {
  EXPECT_FALSE(is_away(0));
  EXPECT_FALSE(is_away(11, {.is_any_up = true, .is_awaiting = true}));
  EXPECT_FALSE(is_away(13));
  EXPECT_TRUE(is_away(26));
}

TEST_F(PeerWatchTest, ASilentPeerIsGivenUpAfterItsTimeoutWhateverCameAndWent) {
  EXPECT_FALSE(is_away(30, {.is_any_up = true, .is_awaiting = true}));
  EXPECT_TRUE(is_away(31)) << "the last sign of life is 31 s old";
}

TEST_F(PeerWatchTest, OnlyTimeInWhichSomethingWaitsCounts) {
  EXPECT_FALSE(is_away(0));
  EXPECT_FALSE(is_away(1000, {.is_any_up = false, .is_awaiting = false}));
  EXPECT_FALSE(is_away(1001));
  EXPECT_TRUE(is_away(1014));
}

TEST_F(PeerWatchTest, AHostThatHasOurHelloIsAlive) {
  EXPECT_FALSE(is_away(0));
  EXPECT_FALSE(is_away(1000, {.is_answer_due = true, .is_awaiting = true}));
}

TEST_F(PeerWatchTest, TheTimeOfALostDaemonIsNotThePeers) {
  EXPECT_FALSE(is_away(0));
  watch_.note_daemon_back(kBegin + 12 * kNsPerSecond);
  EXPECT_FALSE(is_away(13));
  EXPECT_TRUE(is_away(26));
}

TEST_F(PeerWatchTest, TheReasonNamesTheLastTroubleAndTheTime) {
  EXPECT_FALSE(is_away(1));
  const auto silent = watch_.judge_absence(kAlone, settings_, kBegin + 14 * kNsPerSecond);
  EXPECT_EQ(silent, "it does not answer; given up after 14 s without it");
  watch_.note_trouble("the connection ended: reset");
  const auto reset = watch_.judge_absence(kAlone, settings_, kBegin + 15 * kNsPerSecond);
  EXPECT_EQ(reset, "the connection ended: reset; given up after 15 s without it");
}

TEST_F(PeerWatchTest, AnAnswerIsLateAfterThePeersTimeoutAndThatIsSaidOnce) {
  EXPECT_FALSE(is_answer_late(0));
  EXPECT_FALSE(is_answer_late(30));
  EXPECT_TRUE(is_answer_late(31));
  EXPECT_FALSE(is_answer_late(1000));
}

TEST_F(PeerWatchTest, ASessionEndsTheWaitForAnAnswer) {
  EXPECT_FALSE(is_answer_late(0));
  EXPECT_TRUE(is_answer_late(31));
  EXPECT_FALSE(is_answer_late(32, {.is_any_up = true, .is_awaiting = true}));
  EXPECT_FALSE(is_answer_late(33));
  EXPECT_TRUE(is_answer_late(64));
}

TEST_F(PeerWatchTest, NoAnswerIsLateThatNothingWaitsFor) {
  EXPECT_FALSE(is_answer_late(0));
  EXPECT_FALSE(is_answer_late(100, {.is_answer_due = true, .is_awaiting = false}));
  EXPECT_FALSE(is_answer_late(200, {.is_answer_due = false, .is_awaiting = true}));
  EXPECT_FALSE(is_answer_late(201));
}

}  // namespace
}  // namespace lyre::nccl_adapter
