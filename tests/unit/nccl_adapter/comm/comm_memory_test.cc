#include "nccl_adapter/comm/comm_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "nccl_adapter/limits.h"
#include "tests/unit/nccl_adapter/blocked_transport.h"
#include "tests/unit/nccl_adapter/support/connected_hosts.h"

namespace lyre::nccl_adapter {
namespace {

/// Two buffers of a sending comm, and a stream beside its own.
class MemoryOfAComm : public ConnectedHosts {
 protected:
  ~MemoryOfAComm() override {
    near_.abort();
    memory_.release_all();
  }
  void send_from(const Registration* registration) {
    const Chunk chunk{
        .header = {.type = FrameType::kData, .bytes = static_cast<uint32_t>(kZeroCopyBytesMin)},
        .data = registration->base,
        .region = registration->memory->region};
    ASSERT_EQ(near_.send_chunk(chunk), Io::kOk);
    ASSERT_TRUE(until([&] { return near_.flush() == Io::kOk; }));
  }

  std::vector<uint8_t> first_bytes_ = std::vector<uint8_t>(kZeroCopyBytesMin);
  std::vector<uint8_t> second_bytes_ = std::vector<uint8_t>(kZeroCopyBytesMin);
  Lanes lanes_{nullptr, 1};
  QueuePairs queue_pairs_{{&here(), nullptr, &lanes_, [](Lane&) {}}, Nonce{}};
  CommMemory memory_{{&here(), &lanes_, &queue_pairs_, [](Lane&) {}}};
  Stream near_ = connect();
  const Registration* first_ = memory_.add(first_bytes_.data(), first_bytes_.size(), true);
  const Registration* second_ = memory_.add(second_bytes_.data(), second_bytes_.size(), true);
};

// Each of NCCL's buffers waited for whatever the connection had under way.
TEST_F(MemoryOfAComm, IsReadWhileWhatWasSentFromThereIsNotAcknowledged) {
  EXPECT_FALSE(memory_.is_read(*first_));
  for (size_t rail = 0; rail < 2; ++rail) network_.wires().set_rail({1, rail}, false);
  ASSERT_NO_FATAL_FAILURE(send_from(second_));
  EXPECT_FALSE(memory_.is_read(*first_));
  EXPECT_TRUE(memory_.is_read(*second_));
  for (size_t rail = 0; rail < 2; ++rail) network_.wires().set_rail({1, rail}, true);
  EXPECT_TRUE(until([&] { return !memory_.is_read(*second_); }));
}

// The library does not have it yet.
TEST_F(MemoryOfAComm, IsReadWhileAStreamIsBlockedInIt) {
  const lyre_region* region = second_->memory->region;
  lanes_[0].attach(std::make_unique<BlockedTransport>(region), 1, events_.now_ns());
  EXPECT_FALSE(memory_.is_read(*first_));
  EXPECT_TRUE(memory_.is_read(*second_));
}

TEST_F(MemoryOfAComm, IsReadNoMoreByAStreamThatWasReset) {
  for (size_t rail = 0; rail < 2; ++rail) network_.wires().set_rail({1, rail}, false);
  ASSERT_NO_FATAL_FAILURE(send_from(second_));
  near_.abort();
  EXPECT_FALSE(memory_.is_read(*second_));
}

TEST_F(MemoryOfAComm, IsNotWaitedForByAUserThatIsNotTheLastOne) {
  Memory* other = here().take_memory(second_bytes_.data(), second_bytes_.size());
  for (size_t rail = 0; rail < 2; ++rail) network_.wires().set_rail({1, rail}, false);
  ASSERT_NO_FATAL_FAILURE(send_from(second_));
  EXPECT_FALSE(memory_.is_read(*second_));
  here().give_back_memory(other);
  EXPECT_TRUE(memory_.is_read(*second_));
}

TEST_F(MemoryOfAComm, IsKnownUntilItsRelease) {
  ASSERT_TRUE(memory_.has(second_));
  memory_.release(second_);
  EXPECT_FALSE(memory_.has(second_));
  EXPECT_TRUE(memory_.has(first_));
}

}  // namespace
}  // namespace lyre::nccl_adapter
