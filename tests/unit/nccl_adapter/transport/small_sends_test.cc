#include "nccl_adapter/transport/small_sends.h"

#include <gtest/gtest.h>

namespace lyre::nccl_adapter {
namespace {

class SmallSendsTest : public ::testing::Test {
 protected:
  /// How many of `count` sends, so far apart, were followed by a due look.
  int due_of(int count, uint64_t bytes = 8, int64_t apart_ns = 50'000) {
    int due = 0;
    for (int i = 0; i < count; ++i) {
      sends_.on_send(bytes, now_ns_ += apart_ns);
      due += sends_.take_due() ? 1 : 0;
    }
    return due;
  }

  SmallSends sends_;
  int64_t now_ns_ = 1'000'000'000;
};

TEST_F(SmallSendsTest, ARowHasToBeginFirst) {
  EXPECT_EQ(due_of(kSmallSendsInARow - 1), 0);
  EXPECT_EQ(due_of(10), 10);
}

TEST_F(SmallSendsTest, EachSendIsDueOnce) {
  due_of(kSmallSendsInARow);
  EXPECT_FALSE(sends_.take_due());
}

TEST_F(SmallSendsTest, AGapEndsTheRow) {
  due_of(kSmallSendsInARow);
  now_ns_ += kSmallSendsGapNs;
  EXPECT_EQ(due_of(kSmallSendsInARow - 1), 0);
}

TEST_F(SmallSendsTest, LargeSendsDoNotCount) {
  EXPECT_EQ(due_of(100, kSmallSendBytesMax + 1), 0);
  EXPECT_EQ(due_of(kSmallSendsInARow, kSmallSendBytesMax), 1);
}

TEST_F(SmallSendsTest, YieldsThatFindNobodyAreTriedSeldom) {
  due_of(kSmallSendsInARow);
  for (int i = 0; i < kVainYieldsInARow; ++i) {
    EXPECT_EQ(due_of(1), 1);
    sends_.on_yield(kVainYieldNs / 2);
  }
  EXPECT_EQ(due_of(10 * kSendsPerTrial), 10);
  sends_.on_yield(3 * kVainYieldNs);
  EXPECT_EQ(due_of(10), 10) << "somebody is there";
}

}  // namespace
}  // namespace lyre::nccl_adapter
