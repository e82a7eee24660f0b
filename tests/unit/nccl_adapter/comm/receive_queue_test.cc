#include "nccl_adapter/comm/receive_queue.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "nccl_adapter/protocol/frame.h"
#include "tests/unit/nccl_adapter/idle_transport.h"

// Where messages come from; message_queues_test.cc has what becomes of them.
namespace lyre::nccl_adapter {
namespace {

/// Its slices are taken back while they are read: after so many checks.
class RevokedTransport : public IdleTransport {
 public:
  explicit RevokedTransport(int good_checks) : good_checks_(good_checks) {}
  bool has_read_right() override { return good_checks_-- > 0; }

 private:
  int good_checks_;
};

TEST(RevokedSlices, AMessageFromMemoryThatWasTakenBackIsNotDone) {
  ReceiveQueue queue(nullptr);
  RevokedTransport source(1);  // the header is good
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

// The peer would be told that it sent too much.
TEST(RevokedSlices, AHeaderFromMemoryThatWasTakenBackIsNotJudged) {
  ReceiveQueue queue(nullptr);
  RevokedTransport source(0);
  std::vector<uint8_t> data(8);
  ASSERT_NE(queue.post(data.data(), data.size()), nullptr);
  std::vector<uint8_t> bytes(kFrameHeaderBytes + 1);
  encode({.type = FrameType::kData, .bytes = 1, .message_bytes = 9},
         std::span(bytes).first<kFrameHeaderBytes>());
  FrameProgress reader;
  reader.source = &source;
  std::span<const uint8_t> in(bytes);
  EXPECT_EQ(queue.take(&reader, &in), ReceiveQueue::Verdict::kRevoked);
  EXPECT_FALSE(queue.refused());
}

}  // namespace
}  // namespace lyre::nccl_adapter
