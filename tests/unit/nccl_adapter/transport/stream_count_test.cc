#include "nccl_adapter/transport/stream_count.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {
namespace {

constexpr size_t kStreamsMaxHere = 32;

/// Connections of one port on a network that gives each flow so much, and all of them together so
/// much.
class CappedPort {
 public:
  CappedPort(double flow, double host, size_t connections = 1, size_t start = 1)
      : flow_(flow), host_(host), connections_(connections), count_(start, kStreamsMaxHere) {}

  double bytes_per_s() const {
    return std::min(flow_ * static_cast<double>(connections_ * count_.wanted()), host_);
  }
  void be_busy(int64_t ns) { pass(ns, true); }
  void be_idle(int64_t ns) { pass(ns, false); }
  /// What the network gives is not what arrives: the hosts have little time for it.
  void be_disturbed(int64_t ns, double bytes_per_s) {
    const double host = std::exchange(host_, bytes_per_s);
    pass(ns, true);
    host_ = host;
  }
  StreamCount& count() { return count_; }
  size_t most_tried() const { return most_tried_; }

 private:
  void pass(int64_t ns, bool is_busy) {
    for (int64_t i = 0; i < ns / kTickNs; ++i) {
      const double bytes = is_busy ? bytes_per_s() * kTickNs / kNsPerSecond : 0;
      for (size_t c = 0; c < connections_; ++c) {
        count_.report({.acked_bytes = static_cast<uint64_t>(bytes) / connections_,
                       .is_busy = is_busy,
                       .up = count_.wanted()});
      }
      count_.look(kTickNs);
      most_tried_ = std::max(most_tried_, count_.wanted());
    }
  }

  double flow_;
  double host_;
  size_t connections_;
  StreamCount count_;
  size_t most_tried_ = 0;
};

void be_busy(StreamCount* count, uint64_t acked_bytes, size_t up) {
  count->report({.acked_bytes = acked_bytes, .is_busy = true, .up = up});
  count->look(kTickNs);
}

/// On a network that limits flows only; of the streams that are wanted so many are there at most.
void be_busy_for(int64_t ns, StreamCount* count, size_t room) {
  for (; ns > 0; ns -= kTickNs) {
    const size_t up = std::min(count->wanted(), room);
    be_busy(count, up * 1'000'000, up);
  }
}

TEST(StreamCount, GrowsWhileTheTotalGrowsWithIt) {
  for (size_t flows = 1; flows <= kStreamsMaxHere; ++flows) {
    CappedPort port(1e8, 1e8 * static_cast<double>(flows));
    port.be_busy(3 * kNsPerSecond);
    EXPECT_TRUE(port.count().is_settled());
    EXPECT_EQ(port.bytes_per_s(), 1e8 * static_cast<double>(flows));
    EXPECT_LT(port.count().wanted(), 3 * flows);
  }
}

TEST(StreamCount, HasEightStreamsWithinASecond) {
  CappedPort port(1.25e8, 1e9);
  port.be_busy(kNsPerSecond);
  EXPECT_EQ(port.bytes_per_s(), 1e9);
}

TEST(StreamCount, OneThatBringsLittleIsTheLast) {
  CappedPort port(1e8, 1.2e8);
  port.be_busy(3 * kNsPerSecond);
  EXPECT_EQ(port.count().wanted(), 2u);
  EXPECT_EQ(port.most_tried(), 2u);
}

TEST(StreamCount, OneThatBringsNothingIsNotKept) {
  CappedPort port(1e8, 1.05e8);
  port.be_busy(3 * kNsPerSecond);
  EXPECT_EQ(port.count().wanted(), 1u);
  EXPECT_EQ(port.most_tried(), 2u);
}

TEST(StreamCount, BeginsWithWhatIsKnownOfThePort) {
  CappedPort port(1e8, 6e8, 1, 5);
  EXPECT_EQ(port.count().wanted(), 5u);
  port.be_busy(3 * kNsPerSecond);
  EXPECT_EQ(port.bytes_per_s(), 6e8);
  EXPECT_LE(port.count().wanted(), 12u);
}

TEST(StreamCount, ManyConnectionsBeginWithOneStreamEach) {
  StreamCount count(8, kStreamsMaxHere);
  for (size_t i = 0; i < kConnectionsWithStreams; ++i) EXPECT_EQ(count.add_connection(), 8u);
  EXPECT_EQ(count.idle(), 8u);
  EXPECT_EQ(count.add_connection(), 1u);
  EXPECT_EQ(count.idle(), 1u);
  EXPECT_EQ(count.wanted(), 8u) << "which a busy one has";
  count.remove_connection();
  EXPECT_EQ(count.idle(), 8u);
}

TEST(StreamCount, OfManyConnectionsEachHasTheNumberThatIsGiven) {
  StreamCount count(4, 4);
  for (size_t i = 0; i <= kConnectionsWithStreams; ++i) EXPECT_EQ(count.add_connection(), 4u);
  EXPECT_EQ(count.idle(), 4u);
}

TEST(StreamCount, WhereFlowsAreLimitedThereAreStreamsToSpare) {
  CappedPort limited(1e8, 4e8);
  limited.be_busy(3 * kNsPerSecond);
  EXPECT_EQ(limited.count().wanted(), 8u);
  CappedPort grown_once(1e8, 2e8);
  grown_once.be_busy(3 * kNsPerSecond);
  EXPECT_EQ(grown_once.count().wanted(), 2u) << "that may be chance";
}

TEST(StreamCount, NeverWantsLessThanItBeganWith) {
  CappedPort port(1e9, 1e9, 1, 4);
  port.be_busy(3 * kNsPerSecond);
  EXPECT_EQ(port.count().wanted(), 4u);
}

TEST(StreamCount, ConnectionsThatAreNotBusyTryNothing) {
  CappedPort port(1e8, 1e9);
  port.be_idle(3 * kNsPerSecond);
  EXPECT_EQ(port.most_tried(), 1u);
}

TEST(StreamCount, AShortGapIsNoPause) {
  CappedPort port(1e8, 8e8);
  for (int i = 0; i < 25; ++i) {
    port.be_busy(60 * 1'000'000);
    port.be_idle(100 * 1'000'000);
  }
  EXPECT_EQ(port.count().wanted(), 16u);
}

TEST(StreamCount, ForgetsAfterAPause) {
  CappedPort port(1e8, 8e8);
  port.be_busy(3 * kNsPerSecond);
  port.be_idle(kForgetStreamsNs);
  EXPECT_EQ(port.count().wanted(), 1u);
  port.be_busy(3 * kNsPerSecond);
  EXPECT_EQ(port.count().wanted(), 16u);
}

TEST(StreamCount, StreamsThatDoNotComeAreNotWaitedForForEver) {
  StreamCount count(2, kStreamsMaxHere);
  for (int64_t ns = 0; ns < 4 * kStreamTrialWaitNs; ns += kTickNs) be_busy(&count, 1000, 2);
  EXPECT_TRUE(count.is_settled());
  EXPECT_EQ(count.wanted(), 2u);
}

TEST(StreamCount, StreamsToSpareThatDoNotComeAreNotKept) {
  StreamCount count(1, kStreamsMaxHere);
  for (int64_t ns = 0; ns < 5 * kStreamTrialWaitNs; ns += kTickNs) {
    const size_t up = std::min<size_t>(count.wanted(), 4);  // the peer takes no more
    be_busy(&count, up * 1'000'000, up);
  }
  EXPECT_TRUE(count.is_settled());
  EXPECT_EQ(count.wanted(), 4u);
}

TEST(StreamCount, AConnectionWithoutAPeerDoesNotHinderTheOthers) {
  StreamCount count(1, kStreamsMaxHere);
  for (int64_t ns = 0; ns < kNsPerSecond; ns += kTickNs) {
    count.report({.is_busy = true});
    be_busy(&count, count.wanted() * 1'000'000, count.wanted());
  }
  EXPECT_GE(count.wanted(), 8u);
}

TEST(StreamCount, AFixedNumberStaysAsItIs) {
  StreamCount count(3, 3);
  for (int i = 0; i < 1000; ++i) be_busy(&count, 1000, 3);
  EXPECT_EQ(count.wanted(), 3u);
}

// Each of them would gain by more streams, at the cost of the others.
TEST(StreamCount, ConnectionsOfAFullPortDoNotOutbidEachOther) {
  CappedPort port(1e9, 1e9, 8);
  port.be_busy(100 * kNsPerSecond);
  EXPECT_EQ(port.count().wanted(), 1u);
}

TEST(StreamCount, ManyConnectionsNeedFewStreamsEach) {
  for (size_t flows = 8; flows <= 64; ++flows) {
    CappedPort port(1e8, 1e8 * static_cast<double>(flows), 8);
    port.be_busy(2 * kNsPerSecond);
    EXPECT_GE(port.bytes_per_s(), 1e8 * static_cast<double>(flows) / kStreamHelpsSome) << flows;
    EXPECT_LE(port.count().wanted(), flows / 2) << flows;
  }
}

TEST(StreamCount, WhatChanceDecidedIsMended) {
  CappedPort port(1e8, 8e8);
  port.be_busy(100 * 1'000'000);
  port.be_disturbed(kNsPerSecond, 0.9e8);
  EXPECT_TRUE(port.count().is_settled());
  EXPECT_EQ(port.count().wanted(), 1u);
  port.be_busy(kTryAgainNsMin + kNsPerSecond);
  EXPECT_EQ(port.bytes_per_s(), 2e8);
  port.be_busy(6 * kTryAgainNsMin + kNsPerSecond);
  EXPECT_EQ(port.bytes_per_s(), 8e8);
}

// The trials that begin again keep nothing that does not help.
TEST(StreamCount, StaysAsItIsOnAFullPort) {
  CappedPort port(1e8, 4e8);
  port.be_busy(1000 * kNsPerSecond);
  EXPECT_EQ(port.count().wanted(), 8u);
  EXPECT_EQ(port.most_tried(), 16u);
}

// Two processes share a full port by their streams. What one gains the other loses, so a trial of
// one may look as help for the other once, and not again and again.
TEST(StreamCount, ProcessesOfOnePortDoNotOutbidEachOther) {
  StreamCount one(1, kStreamsMaxHere);
  StreamCount other(1, kStreamsMaxHere);
  for (int i = 0; i < 100'000; ++i) {
    const size_t all = one.wanted() + other.wanted();
    for (StreamCount* count : {&one, &other}) {
      // The second one begins later, so that they try one after the other.
      if (count == &other && i <= 5) continue;
      be_busy(count, 20'000'000 * count->wanted() / all, count->wanted());
    }
  }
  EXPECT_LE(one.wanted(), 4u);
  EXPECT_LE(other.wanted(), 4u);
}

TEST(StreamCount, IsHalvedWhereTheDaemonIsFullAndStartsAnewAfterAPause) {
  CappedPort port(1e9, 8e9, 1, 5);
  for (const size_t left : {2u, 1u, 1u}) {
    port.count().halve();
    EXPECT_EQ(port.count().wanted(), left);
  }
  EXPECT_TRUE(port.count().is_settled());
  port.be_idle(kForgetStreamsNs - kTickNs);
  EXPECT_EQ(port.count().wanted(), 1u);
  port.be_idle(kTickNs);
  EXPECT_EQ(port.count().wanted(), 5u);
}

/// Another job of the user had all of the daemon's connections for a while.
class CountAfterAShortage : public ::testing::Test {
 protected:
  void be_short_for(int64_t ns) {
    be_busy_for(5 * kNsPerSecond, &count_, kStreamsMaxHere);
    ASSERT_EQ(count_.wanted(), kStreamsMaxHere);
    for (int i = 0; i < 6; ++i) count_.halve();
    ASSERT_EQ(count_.wanted(), 1u);
    be_busy_for(ns, &count_, 1);
    ASSERT_LE(count_.wanted(), 2u);
  }

  StreamCount count_{1, kStreamsMaxHere};
};

TEST_F(CountAfterAShortage, IsSoonWhatItWasBefore) {
  ASSERT_NO_FATAL_FAILURE(be_short_for(40 * kNsPerSecond));
  be_busy_for(120 * kNsPerSecond, &count_, kStreamsMaxHere);
  EXPECT_EQ(count_.wanted(), kStreamsMaxHere);
}

TEST_F(CountAfterAShortage, IsTriedForAsLongAsThatLasts) {
  ASSERT_NO_FATAL_FAILURE(be_short_for(24 * 3600 * kNsPerSecond));
  be_busy_for(kTryAgainNsMax + 60 * kNsPerSecond, &count_, kStreamsMaxHere);
  EXPECT_EQ(count_.wanted(), kStreamsMaxHere);
}

TEST(StreamCount, WhatWasThereBeforeAShortageNeedsNoProof) {
  CappedPort port(1e9, 1e9, 1, 5);
  port.be_busy(3 * kNsPerSecond);
  port.count().halve();
  port.be_busy(3 * (kTryAgainNsMin + kNsPerSecond));
  EXPECT_EQ(port.count().wanted(), 5u);
}

TEST(StreamCount, IsTriedAgainSoonAfterEachShortage) {
  CappedPort port(1e9, 1e9, 1, 4);
  for (int i = 0; i < 5; ++i) {
    port.be_busy(300 * kNsPerSecond);
    port.count().halve();
    EXPECT_EQ(port.count().wanted(), 2u);
    port.be_busy(kTryAgainNsMin + kNsPerSecond);
    EXPECT_EQ(port.count().wanted(), 4u);
  }
}

TEST(StreamCount, TrialsWhoseStreamsDoNotComeAreNotTheLast) {
  StreamCount count(1, kStreamsMaxHere);
  be_busy_for(60 * kNsPerSecond, &count, 4);
  be_busy_for(1200 * kNsPerSecond, &count, kStreamsMaxHere);
  EXPECT_EQ(count.wanted(), kStreamsMaxHere);
}

/// Two connections of a full daemon: the first one has what it wants, the second one has not.
void be_refused_for(int64_t ns, StreamCount* count, size_t room, bool is_busy) {
  for (; ns > 0; ns -= kTickNs) {
    const size_t first = count->wanted();
    const size_t second = std::min(first, room > first ? room - first : 1);
    count->report({.acked_bytes = first * 1'000'000, .is_busy = is_busy, .up = first});
    count->report({.acked_bytes = second * 1'000'000,
                   .is_busy = is_busy,
                   .up = second,
                   .is_refused = second < first});
    count->look(kTickNs);
  }
}

TEST(StreamCount, StreamsThatAFullDaemonRefusesAreNotWaitedFor) {
  for (const bool is_busy : {true, false}) {
    StreamCount count(8, kStreamsMaxHere);
    be_refused_for(kStreamsRefusedNs - kTickNs, &count, 12, is_busy);
    EXPECT_EQ(count.wanted(), 8u) << "the daemon may have room in a moment";
    be_refused_for(kTickNs, &count, 12, is_busy);
    EXPECT_EQ(count.wanted(), 4u);
    be_refused_for(2 * kStreamsRefusedNs, &count, 12, is_busy);
    EXPECT_EQ(count.wanted(), 4u) << "there is room for all of these";
  }
}

TEST(StreamCount, AFixedNumberIsHalvedAsWellWhereTheDaemonIsFull) {
  StreamCount count(4, 4);
  be_refused_for(kStreamsRefusedNs, &count, 6, true);
  EXPECT_EQ(count.wanted(), 2u);
}

TEST(StreamCount, OneStreamIsNotHalved) {
  StreamCount count(1, kStreamsMaxHere);
  for (int64_t ns = 0; ns < 20 * kNsPerSecond; ns += kTickNs) {
    count.report({.up = 1, .is_refused = true});
    count.look(kTickNs);
  }
  EXPECT_EQ(count.wanted(), 1u);
  be_busy_for(5 * kNsPerSecond, &count, kStreamsMaxHere);
  EXPECT_EQ(count.wanted(), kStreamsMaxHere) << "the trials went on";
}

TEST(StreamCount, OneStreamOfACommThatOthersNeedRoomOfIsNotHalved) {
  StreamCount count(1, kStreamsMaxHere);
  count.halve();
  be_busy_for(5 * kNsPerSecond, &count, kStreamsMaxHere);
  EXPECT_EQ(count.wanted(), kStreamsMaxHere) << "the trials went on";
}

// The number from before is tried again. Its streams are refused, and the trial ends without them.
TEST(StreamCount, KeepsWhatAFullDaemonHasRoomFor) {
  StreamCount count(8, kStreamsMaxHere);
  size_t least = count.wanted();
  for (int64_t ns = 0; ns < 60 * kNsPerSecond; ns += kTickNs) {
    be_refused_for(kTickNs, &count, 12, true);
    least = std::min(least, count.wanted());
  }
  EXPECT_EQ(least, 4u);
}

}  // namespace
}  // namespace lyre::nccl_adapter
