#include "nccl_adapter/comm/receive_queue.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "nccl_adapter/protocol/frame.h"
#include "tests/unit/nccl_adapter/idle_transport.h"

// Where messages come from; message_queues_test.cc has what becomes of them.
namespace lyre::nccl_adapter {
namespace {

/// Its slices were taken back while they were read.
class RevokedTransport : public IdleTransport {
 public:
  bool has_read_right() override { return false; }
};

TEST(RevokedSlices, AMessageFromMemoryThatWasTakenBackIsNotDone) {
  ReceiveQueue queue(nullptr);
  RevokedTransport source;
  std::vector<uint8_t> data(8);
  ASSERT_NE(queue.post(data.data(), data.size()), nullptr);
  std::vector<uint8_t> bytes(kFrameHeaderBytes + data.size());
  encode({.type = FrameType::kData, .bytes = 8, .message_bytes = 8},
         std::span<uint8_t, kFrameHeaderBytes>(bytes.data(), kFrameHeaderBytes));
  FrameProgress reader;
  reader.source = &source;
  std::span<const uint8_t> in(bytes);
  EXPECT_EQ(queue.take(&reader, &in), ReceiveQueue::Verdict::kRevoked);
  EXPECT_EQ(queue.placed(), 0u);
}

}  // namespace
}  // namespace lyre::nccl_adapter
