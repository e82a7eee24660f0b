#include "nccl_adapter/transport/verbs/queue_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/unit/nccl_adapter/support/rdma_hosts.h"

namespace lyre::nccl_adapter {
namespace {

using ::testing::IsEmpty;

constexpr uint32_t kLargest = kBlockBytes - kFrameHeaderBytes;

class QueuePairTest : public ConnectedQueuePairs {
 protected:
  QueuePairTest() : data_(1 << 20) { std::iota(data_.begin(), data_.end(), uint8_t{1}); }
  Chunk chunk(uint32_t bytes, const Memory* memory = nullptr) const {
    return {.header = {.type = FrameType::kData, .bytes = bytes, .message_bytes = bytes},
            .data = data_.data(),
            .memory = memory};
  }
  /// As the comm would: true if it was one credit frame.
  static bool hear_credit(QueuePair& queue_pair) {
    FrameHeader header;
    const std::vector<uint8_t> bytes = take(queue_pair);
    return bytes.size() == kFrameHeaderBytes &&
           decode(std::span<const uint8_t>(bytes).first<kFrameHeaderBytes>(), &header) &&
           header.type == FrameType::kCredit && queue_pair.on_credit(header.message);
  }
  std::vector<uint8_t> data_;
  std::span<const uint8_t> peeked_;
};

TEST_F(QueuePairTest, CarriesNothingBeforeAFirstFrameWasAcknowledged) {
  EXPECT_EQ(near_->send_chunk(chunk(10)), Io::kAgain);
  EXPECT_FALSE(near_->is_proven());
  near_->probe();
  EXPECT_FALSE(near_->has_room(1));
  pass(kMs);
  EXPECT_TRUE(near_->is_proven());
  EXPECT_TRUE(far_->is_proven()) << "it has heard something";
  EXPECT_TRUE(near_->has_room(1));
}

TEST_F(QueuePairTest, BringsFramesOfAllSizesWholeAndInOrder) {
  prove();
  for (const uint32_t bytes :
       {0u, 1u, 64u, 65u, kQueuePairSlotBytes - 32, kQueuePairSlotBytes - 31, 100'000u, kLargest}) {
    ASSERT_EQ(near_->send_chunk(chunk(bytes)), Io::kOk) << bytes;
    pass(kMs);
    std::vector<uint8_t> expected(kFrameHeaderBytes + bytes);
    encode(chunk(bytes).header, std::span(expected).first<kFrameHeaderBytes>());
    std::copy_n(data_.begin(), bytes, expected.begin() + kFrameHeaderBytes);
    EXPECT_EQ(take(*far_), expected) << bytes;
    EXPECT_EQ(near_->unacked_bytes(), 0u);
    pass(kMs);
    for (const auto& one : {near_.get(), far_.get()}) {
      EXPECT_TRUE(one->peek(&peeked_) != Io::kOk || hear_credit(*one));
    }
  }
  EXPECT_THAT(wrong_, IsEmpty());
}

TEST_F(QueuePairTest, SendsNoMoreThanTheOtherSideHasPosted) {
  prove();
  size_t sent = 0;
  while (near_->send_chunk(chunk(1)) == Io::kOk) {
    ++sent;
    pass(kMs);
  }
  EXPECT_EQ(sent, kQueuePairSlots - kCreditSlots - 1) << "the probe took one";
  EXPECT_EQ(near_->unacked_bytes(), 0u) << "all of it has arrived, and nobody took it";
  take(*far_);
  pass(kMs);
  EXPECT_FALSE(near_->has_room(1)) << "it does not know yet";
  EXPECT_TRUE(hear_credit(*near_));
  EXPECT_TRUE(near_->has_room(1));
  EXPECT_THAT(wrong_, IsEmpty());
}

TEST_F(QueuePairTest, BothDirectionsFullStillBringCredit) {
  prove();
  while (near_->send_chunk(chunk(1)) == Io::kOk) pass(kMs);
  while (far_->send_chunk(chunk(1)) == Io::kOk) pass(kMs);
  take(*far_);
  take(*near_);
  pass(kMs);
  EXPECT_TRUE(hear_credit(*near_));
  EXPECT_TRUE(hear_credit(*far_));
  EXPECT_TRUE(near_->has_room(1) && far_->has_room(1));
  EXPECT_THAT(wrong_, IsEmpty());
}

TEST_F(QueuePairTest, ReadsRegisteredMemoryInPlaceUntilItHasArrived) {
  prove();
  const Memory memory{.data = data_.data(), .bytes = data_.size()};
  ASSERT_EQ(near_->send_chunk(chunk(kZeroCopyBytesMin, &memory)), Io::kOk);
  EXPECT_TRUE(near_->reads(&memory));
  pass(kMs);
  EXPECT_FALSE(near_->reads(&memory));
  EXPECT_EQ(take(*far_).size(), kFrameHeaderBytes + kZeroCopyBytesMin);
  hosts_[0]->forget(&memory);
  EXPECT_THAT(wrong_, IsEmpty());
}

TEST_F(QueuePairTest, GivesWhatHadArrivedWhenItBroke) {
  prove();
  ASSERT_EQ(near_->send_chunk(chunk(5)), Io::kOk);
  pass(kMs);
  far_->fail("something");
  EXPECT_FALSE(far_->has_ended());
  EXPECT_EQ(take(*far_).size(), kFrameHeaderBytes + 5);
  EXPECT_EQ(far_->peek(&peeked_), Io::kFailed);
  EXPECT_EQ(far_->why(), "something");
}

TEST_F(QueuePairTest, FailsWhereNothingGetsThrough) {
  prove();
  network_.cut(0, 1, INT64_MAX);
  ASSERT_EQ(near_->send_chunk(chunk(5)), Io::kOk);
  pass(1000 * kMs);
  EXPECT_EQ(near_->why(), "a send failed: it broke");
  EXPECT_EQ(near_->send_chunk(chunk(5)), Io::kFailed);
}

TEST_F(QueuePairTest, DoesNotTakeCreditForWhatItDidNotSend) {
  prove();
  EXPECT_FALSE(near_->on_credit(2));
  EXPECT_TRUE(near_->on_credit(1));
  EXPECT_FALSE(near_->on_credit(0));
}

TEST_F(QueuePairTest, RefusesARingThatOneFrameDoesNotFit) {
  QueuePairTerms terms = far_->terms();
  terms.slots = kSlotsMin;
  std::string why;
  EXPECT_FALSE(make(0)->connect(terms, &why));
  EXPECT_EQ(why, "the peer's ring of receives is too small");
}

TEST_F(QueuePairTest, CompletionsOfADestroyedOneLeadNowhere) {
  prove();
  ASSERT_EQ(near_->send_chunk(chunk(5)), Io::kOk);
  events_.run_until(events_.now_ns() + kMs);  // completions wait in the queue
  const uint32_t number = near_->terms().number;
  near_.reset();
  near_ = make(0);
  EXPECT_EQ(near_->terms().number, number) << "the device uses the number again";
  pass(kMs);
  EXPECT_FALSE(near_->is_proven());
  EXPECT_FALSE(near_->has_failed());
}

}  // namespace
}  // namespace lyre::nccl_adapter
