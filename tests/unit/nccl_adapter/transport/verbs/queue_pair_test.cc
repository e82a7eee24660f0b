#include "nccl_adapter/transport/verbs/queue_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <numeric>

#include "nccl_adapter/transport/verbs/memory_error.h"
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
           header.type == FrameType::kCredit && queue_pair.sends().on_credit(header.message);
  }
  std::vector<uint8_t> data_;
  std::span<const uint8_t> peeked_;
};

TEST_F(QueuePairTest, CarriesNothingBeforeAFirstFrameWasAcknowledged) {
  EXPECT_EQ(near_->send_chunk(chunk(10)), Io::kAgain);
  EXPECT_FALSE(near_->is_proven());
  near_->probe();
  EXPECT_FALSE(near_->has_room(chunk(1)));
  pass(kMs);
  EXPECT_TRUE(near_->is_proven());
  EXPECT_TRUE(far_->is_proven()) << "it has heard something";
  EXPECT_TRUE(near_->has_room(chunk(1)));
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
  EXPECT_FALSE(near_->has_room(chunk(1))) << "it does not know yet";
  EXPECT_TRUE(hear_credit(*near_));
  EXPECT_TRUE(near_->has_room(chunk(1)));
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
  EXPECT_TRUE(near_->has_room(chunk(1)) && far_->has_room(chunk(1)));
  EXPECT_THAT(wrong_, IsEmpty());
}

TEST_F(QueuePairTest, ReadsRegisteredMemoryInPlaceUntilItHasArrived) {
  prove();
  const Memory memory{.data = data_.data(), .bytes = data_.size()};
  ASSERT_EQ(near_->send_chunk(chunk(kZeroCopyBytesMin, &memory)), Io::kOk);
  EXPECT_TRUE(near_->sends().reads(&memory));
  pass(kMs);
  EXPECT_FALSE(near_->sends().reads(&memory));
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

TEST_F(QueuePairTest, SendsNoMoreInlineThanTheDriverGranted) {
  network_.devices().front()->inline_bytes_max = kFrameHeaderBytes;
  connect_anew();
  prove();
  ASSERT_EQ(near_->send_chunk(chunk(10)), Io::kOk);
  pass(kMs);
  EXPECT_EQ(take(*far_).size(), kFrameHeaderBytes + 10);
  EXPECT_THAT(wrong_, IsEmpty());
}

TEST_F(QueuePairTest, HasPatienceForAllTriesOfItsDevice) {
  const auto patience_ns = [&](uint8_t timeout) {
    VerbsPlace place = hosts_[0]->places(address(1)).front();
    place.timeout = timeout;
    std::string why;
    const auto made = QueuePair::make(place, {.first_psn = 1}, &why);
    return made != nullptr ? made->patience_ns() : 0;
  };
  EXPECT_LT(patience_ns(kVerbsTimeout), kStallNs);
  EXPECT_GT(patience_ns(20), 8 * (int64_t{4096} << 20));
  EXPECT_LT(patience_ns(20), kQueuePairStallNsMax);
  EXPECT_EQ(patience_ns(31), kQueuePairStallNsMax);
}

TEST_F(QueuePairTest, NamesTheLimitOnLockedMemoryWhereThatIsMissing) {
  VerbsApi api = adapter_sim::rdma_api();
  api.reg_mr = [](ibv_pd*, void*, size_t, int) -> ibv_mr* { return errno = ENOMEM, nullptr; };
  VerbsDevices devices(api, Settings{});
  caller_ = 0;
  devices.look(events_.now_ns());
  std::string why;
  EXPECT_EQ(QueuePair::make(devices.places(address(1)).front(), {.first_psn = 1}, &why), nullptr);
  EXPECT_EQ(why, "registering memory failed: " + memory_error_text(ENOMEM));
}

TEST_F(QueuePairTest, DoesNotTakeCreditForWhatItDidNotSend) {
  prove();
  EXPECT_FALSE(near_->sends().on_credit(2));
  EXPECT_TRUE(near_->sends().on_credit(1));
  EXPECT_FALSE(near_->sends().on_credit(0));
}

TEST_F(QueuePairTest, RefusesARingThatOneFrameDoesNotFit) {
  QueuePairTerms terms = far_->terms();
  terms.slots = kSlotsMin;
  std::string why;
  EXPECT_FALSE(make(0)->connect(terms, &why));
  EXPECT_EQ(why, "the peer's ring of receives is too small");
}

/// A receive on the far side, of the same size as data_, and what is sent from there.
class QueuePairThatWrites : public QueuePairTest {
 protected:
  QueuePairThatWrites() : room_(data_.size()) { prove(); }
  ~QueuePairThatWrites() override {
    near_.reset();
    far_.reset();
    hosts_[0]->forget(&sent_);
    hosts_[1]->forget(&received_);
  }
  void expose(uint64_t message = 0) {
    const auto place = far_->places().expose(message, room_.data(), room_.size(), &received_);
    ASSERT_TRUE(place);
    ASSERT_TRUE(near_->places().on_place(*place));
  }
  bool is_written(uint32_t bytes) const {
    return std::equal(data_.begin(), data_.begin() + bytes, room_.begin());
  }

  std::vector<uint8_t> room_;
  Memory sent_{.data = data_.data(), .bytes = data_.size()};
  Memory received_{.data = room_.data(), .bytes = room_.size(), .is_exposed = true};
};

TEST_F(QueuePairThatWrites, PutsPayloadWhereItsReceiveIs) {
  EXPECT_TRUE(near_->places().are_used());
  expose();
  ASSERT_NE(near_->places().find(chunk(kLargest, &sent_)), nullptr);
  ASSERT_EQ(near_->send_chunk(chunk(kLargest, &sent_)), Io::kOk);
  EXPECT_TRUE(near_->sends().reads(&sent_));
  pass(kMs);
  EXPECT_TRUE(is_written(kLargest));
  EXPECT_EQ(near_->unacked_bytes(), 0u);
  EXPECT_FALSE(near_->sends().reads(&sent_));
  const std::vector<uint8_t> said = take(*far_);
  FrameHeader header;
  ASSERT_EQ(said.size(), kFrameHeaderBytes);
  ASSERT_TRUE(decode(std::span(said).first<kFrameHeaderBytes>(), &header));
  EXPECT_EQ(header, (FrameHeader{FrameType::kWritten, kLargest, 0, kLargest, 0}));
  EXPECT_THAT(wrong_, IsEmpty());
}

TEST_F(QueuePairThatWrites, TakesOneReceiveOfThePeerForAnyNumberOfBytes) {
  expose();
  size_t sent = 0;
  while (near_->send_chunk(chunk(kLargest, &sent_)) == Io::kOk) {
    ++sent;
    pass(kMs);
  }
  EXPECT_EQ(sent, kQueuePairSlots - kCreditSlots - 1) << "the probe took one";
  EXPECT_THAT(wrong_, IsEmpty());
}

TEST_F(QueuePairThatWrites, SendsFramesOfWhatHasNoPlaceOrMayNotBeWritten) {
  expose(kRequestsPerComm);
  EXPECT_EQ(near_->places().find(chunk(100, &sent_)), nullptr) << "that is another message's place";
  expose();
  EXPECT_NE(near_->places().find(chunk(100, &sent_)), nullptr);
  EXPECT_EQ(near_->places().find(chunk(100)), nullptr) << "the memory is not registered";
  Chunk again = chunk(100, &sent_);
  again.is_again = true;
  EXPECT_EQ(near_->places().find(again), nullptr);
  Chunk larger = chunk(100, &sent_);
  larger.header.message_bytes = room_.size() + 1;
  EXPECT_EQ(near_->places().find(larger), nullptr) << "its receive is smaller";
}

TEST_F(QueuePairThatWrites, TakesAPlaceFromTheReceiverOnlyAndInModeTwoOnly) {
  const FrameHeader place{FrameType::kPlace, 1, 0, 100, 4096};
  EXPECT_FALSE(far_->places().on_place(place)) << "it receives";
  QueuePairTerms terms = far_->terms();
  terms.modes = kModeSend;
  std::string why;
  const auto third = make(0);
  EXPECT_TRUE(third->connect(terms, &why)) << why;
  EXPECT_FALSE(third->places().are_used());
  EXPECT_FALSE(third->places().on_place(place));
}

// The sender's end is lost with a write under way. It lands as long as the receiver's end is there.
TEST_F(QueuePairThatWrites, NothingLandsOnceTheReceiversEndIsDestroyed) {
  expose();
  for (int i = 0; i < 30; ++i) {
    room_.assign(room_.size(), 0);
    ASSERT_EQ(near_->send_chunk(chunk(kLargest, &sent_)), Io::kOk);
    near_.reset();
    far_.reset();
    pass(1000 * kMs);
    ASSERT_EQ(std::count(room_.begin(), room_.end(), 0), static_cast<ptrdiff_t>(room_.size()));
    connect_anew();
    prove();
    expose();
  }
  const uint64_t late = network_.writes().late;
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(near_->send_chunk(chunk(kLargest, &sent_)), Io::kOk);
    near_.reset();
    pass(1000 * kMs);
    connect_anew();
    prove();
    expose();
  }
  EXPECT_GT(network_.writes().late, late) << "otherwise the test shows nothing";
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
