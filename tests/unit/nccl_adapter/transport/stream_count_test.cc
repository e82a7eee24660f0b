#include "nccl_adapter/transport/stream_count.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {
namespace {

constexpr size_t kStreamsMaxHere = 32;

/// A connection on a network that gives each flow so much, and all of them together so much.
class CappedConnection {
 public:
  CappedConnection(double flow, double host, size_t start = 1)
      : flow_(flow), host_(host), count_(start, kStreamsMaxHere) {}

  double bytes_per_s() const {
    return std::min(flow_ * static_cast<double>(count_.wanted()), host_);
  }
  void be_busy(int64_t ns) { pass(ns, true); }
  void be_idle(int64_t ns) { pass(ns, false); }
  StreamCount& count() { return count_; }
  size_t most_tried() const { return most_tried_; }

 private:
  void pass(int64_t ns, bool is_busy) {
    for (int64_t i = 0; i < ns / kTickNs; ++i) {
      const double bytes = is_busy ? bytes_per_s() * kTickNs / kNsPerSecond : 0;
      count_.look({.passed_ns = kTickNs,
                   .acked_bytes = static_cast<uint64_t>(bytes),
                   .is_busy = is_busy,
                   .up = count_.wanted()});
      most_tried_ = std::max(most_tried_, count_.wanted());
    }
  }

  double flow_;
  double host_;
  StreamCount count_;
  size_t most_tried_ = 0;
};

TEST(StreamCount, GrowsWhileTheTotalGrowsWithIt) {
  for (size_t flows = 1; flows <= kStreamsMaxHere; ++flows) {
    CappedConnection connection(1e8, 1e8 * static_cast<double>(flows));
    connection.be_busy(3 * kNsPerSecond);
    EXPECT_TRUE(connection.count().is_settled());
    EXPECT_EQ(connection.bytes_per_s(), 1e8 * static_cast<double>(flows));
    EXPECT_LT(connection.count().wanted(), 3 * flows);
  }
}

TEST(StreamCount, HasEightStreamsWithinASecond) {
  CappedConnection connection(1.25e8, 1e9);
  connection.be_busy(kNsPerSecond);
  EXPECT_EQ(connection.bytes_per_s(), 1e9);
}

TEST(StreamCount, OneThatBringsTooLittleIsNotKept) {
  CappedConnection connection(1e8, 1.4e8);
  connection.be_busy(3 * kNsPerSecond);
  EXPECT_EQ(connection.count().wanted(), 1u);
  EXPECT_EQ(connection.most_tried(), 2u);
}

TEST(StreamCount, BeginsWithWhatIsKnownOfThePort) {
  CappedConnection connection(1e8, 6e8, 5);
  EXPECT_EQ(connection.count().wanted(), 5u);
  connection.be_busy(3 * kNsPerSecond);
  EXPECT_EQ(connection.bytes_per_s(), 6e8);
  EXPECT_LE(connection.count().wanted(), 12u);
}

TEST(StreamCount, WhereFlowsAreLimitedThereAreStreamsToSpare) {
  CappedConnection limited(1e8, 4e8);
  limited.be_busy(3 * kNsPerSecond);
  EXPECT_EQ(limited.count().wanted(), 8u);
  CappedConnection grown_once(1e8, 2e8);
  grown_once.be_busy(3 * kNsPerSecond);
  EXPECT_EQ(grown_once.count().wanted(), 2u) << "that may be chance";
}

TEST(StreamCount, NeverWantsLessThanItBeganWith) {
  CappedConnection connection(1e9, 1e9, 4);
  connection.be_busy(3 * kNsPerSecond);
  EXPECT_EQ(connection.count().wanted(), 4u);
}

TEST(StreamCount, AConnectionThatIsNotBusyTriesNothing) {
  CappedConnection connection(1e8, 1e9);
  connection.be_idle(3 * kNsPerSecond);
  EXPECT_EQ(connection.most_tried(), 1u);
}

TEST(StreamCount, AShortGapIsNoPause) {
  CappedConnection connection(1e8, 8e8);
  for (int i = 0; i < 100; ++i) {
    connection.be_busy(60 * 1'000'000);
    connection.be_idle(kForgetStreamsNs / 2);
  }
  EXPECT_EQ(connection.count().wanted(), 16u);
}

TEST(StreamCount, ForgetsAfterAPause) {
  CappedConnection connection(1e8, 8e8);
  connection.be_busy(3 * kNsPerSecond);
  connection.be_idle(kForgetStreamsNs);
  EXPECT_EQ(connection.count().wanted(), 1u);
  connection.be_busy(3 * kNsPerSecond);
  EXPECT_EQ(connection.count().wanted(), 16u);
}

TEST(StreamCount, StreamsThatDoNotComeAreNotWaitedForForEver) {
  StreamCount count(2, kStreamsMaxHere);
  for (int64_t ns = 0; ns < 10 * kStreamTrialWaitNs; ns += kTickNs) {
    count.look({.passed_ns = kTickNs, .acked_bytes = 1000, .is_busy = true, .up = 2});
  }
  EXPECT_TRUE(count.is_settled());
  EXPECT_EQ(count.wanted(), 2u);
}

TEST(StreamCount, StreamsToSpareThatDoNotComeAreNotKept) {
  StreamCount count(1, kStreamsMaxHere);
  for (int64_t ns = 0; ns < 10 * kStreamTrialWaitNs; ns += kTickNs) {
    const size_t up = std::min<size_t>(count.wanted(), 4);  // the peer takes no more
    count.look({.passed_ns = kTickNs, .acked_bytes = up * 1'000'000, .is_busy = true, .up = up});
  }
  EXPECT_TRUE(count.is_settled());
  EXPECT_EQ(count.wanted(), 4u);
}

TEST(StreamCount, AFixedNumberStaysAsItIs) {
  StreamCount count(3, 3);
  for (int i = 0; i < 1000; ++i) {
    count.look({.passed_ns = kTickNs, .acked_bytes = 1000, .is_busy = true, .up = 3});
  }
  EXPECT_EQ(count.wanted(), 3u);
}

// Two connections share a full port by their streams. What one gains the other loses, so a trial of
// one may look as help for the other once, and not again and again.
TEST(StreamCount, ConnectionsOfOnePortDoNotOutbidEachOther) {
  StreamCount one(1, kStreamsMaxHere);
  StreamCount other(1, kStreamsMaxHere);
  for (int i = 0; i < 1000; ++i) {
    const size_t all = one.wanted() + other.wanted();
    for (StreamCount* count : {&one, &other}) {
      count->look({.passed_ns = kTickNs,
                   .acked_bytes = 20'000'000 * count->wanted() / all,
                   // The second one begins later, so that they try one after the other.
                   .is_busy = count == &one || i > 5,
                   .up = count->wanted()});
    }
  }
  EXPECT_LE(one.wanted(), 2u);
  EXPECT_LE(other.wanted(), 2u);
}

}  // namespace
}  // namespace lyre::nccl_adapter
