#include "nccl_adapter/comm/request_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace lyre::nccl_adapter {
namespace {

TEST(RequestTable, IsFullAfterItsSize) {
  RequestTable table(nullptr);
  std::vector<Request*> requests;
  for (size_t i = 0; i < kRequestsPerComm; ++i) {
    requests.push_back(table.post(nullptr, i));
    ASSERT_NE(requests.back(), nullptr);
  }
  EXPECT_EQ(table.post(nullptr, 0), nullptr);
  EXPECT_EQ(table.active(), kRequestsPerComm);
  // Done is not enough: NCCL still holds the pointer.
  table.finish_oldest();
  EXPECT_EQ(table.post(nullptr, 0), nullptr);
  EXPECT_EQ(requests[0]->state, Request::State::kDone);
  table.release(requests[0]);
  EXPECT_NE(table.post(nullptr, 0), nullptr);
}

// NCCL posts empty messages with an address inside its memory.
TEST(RequestTable, AnEmptyMessageTouchesNoMemory) {
  RequestTable table(nullptr);
  std::vector<uint8_t> memory(16);
  table.post(memory.data() + 8, 0);
  EXPECT_FALSE(table.touches(memory.data(), memory.size()));
  table.post(memory.data() + 8, 1);
  EXPECT_TRUE(table.touches(memory.data(), memory.size()));
}

TEST(RequestTable, AnUntestedRequestKeepsOnlyItsOwnSlot) {
  RequestTable table(nullptr);
  Request* forgotten = table.post(nullptr, 12345);
  table.finish_oldest();
  for (uint64_t i = 1; i < 1000; ++i) {
    Request* request = table.post(nullptr, i);
    ASSERT_NE(request, nullptr);
    EXPECT_EQ(table.at(i).bytes, i);
    table.finish_oldest();
    table.release(request);
  }
  EXPECT_EQ(forgotten->state, Request::State::kDone);
  EXPECT_EQ(forgotten->bytes, 12345u);
}

TEST(RequestTable, ASendThatIsLetGoKeepsItsSlotUntilItIsPlaced) {
  RequestTable table(nullptr);
  Request* send = table.post(nullptr, 10);
  table.post(nullptr, 20);
  EXPECT_FALSE(send->is_done());
  send->state = Request::State::kLetGo;
  EXPECT_TRUE(send->is_done());
  table.release(send);
  EXPECT_FALSE(send->is_done());
  EXPECT_EQ(table.active(), 2u);
  EXPECT_EQ(table.untold(), 1u);
  EXPECT_EQ(table.at(0).bytes, 10u);
  table.finish_oldest();
  EXPECT_EQ(send->state, Request::State::kFree);
  EXPECT_EQ(table.finished_bytes(), 10u);
}

TEST(RequestTable, MessagesKeepTheirOrderWhateverSlotTheyGet) {
  RequestTable table(nullptr);
  std::vector<Request*> requests;
  for (uint64_t i = 0; i < kRequestsPerComm; ++i) requests.push_back(table.post(nullptr, i));
  for (uint64_t i = 0; i < kRequestsPerComm; ++i) table.finish_oldest();
  // Given back in another order, so that the slots are shuffled.
  for (const size_t i : {7u, 0u, 3u, 31u}) table.release(requests[i]);
  for (uint64_t i = 0; i < 4; ++i) {
    table.post(nullptr, 100 + i);
    EXPECT_EQ(table.at(kRequestsPerComm + i).bytes, 100 + i);
  }
}

}  // namespace
}  // namespace lyre::nccl_adapter
