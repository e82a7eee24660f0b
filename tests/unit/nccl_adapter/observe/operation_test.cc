#include "nccl_adapter/observe/operation.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace lyre::nccl_adapter {
namespace {

// All fields say the same, so that a mixture is seen.
Operation numbered(int32_t n) {
  Operation operation{.number = n, .rank = n, .peer_rank = n, .channel = n};
  operation.function.fill(static_cast<char>(n));
  return operation;
}

bool is_whole(const Operation& operation) {
  const Operation wanted = numbered(operation.rank);
  return operation.number == wanted.number && operation.peer_rank == wanted.peer_rank &&
         operation.channel == wanted.channel && operation.function == wanted.function;
}

TEST(OperationTable, FindsWhatWasRemembered) {
  const auto table = std::make_unique<OperationTable>();
  const uint64_t first = table->remember(numbered(1));
  const uint64_t second = table->remember(numbered(2));
  EXPECT_NE(first, second);
  EXPECT_EQ(table->find(first)->rank, 1);
  EXPECT_EQ(table->find(second)->rank, 2);
}

TEST(OperationTable, ATicketOfNobodyFindsNothing) {
  const auto table = std::make_unique<OperationTable>();
  const uint64_t ticket = table->remember(numbered(1));
  EXPECT_FALSE(table->find(0).has_value());
  EXPECT_FALSE(table->find(ticket + 1).has_value());
  EXPECT_FALSE(table->find(ticket + OperationTable::kSlots).has_value());
  EXPECT_FALSE(table->find(~uint64_t{0}).has_value());
}

TEST(OperationTable, AnOldTicketFindsNothingOnceItsSlotIsUsedAgain) {
  const auto table = std::make_unique<OperationTable>();
  const uint64_t ticket = table->remember(numbered(1));
  for (size_t i = 1; i < OperationTable::kSlots; ++i) table->remember(numbered(2));
  EXPECT_TRUE(table->find(ticket).has_value());
  table->remember(numbered(3));
  EXPECT_FALSE(table->find(ticket).has_value());
}

TEST(OperationTable, AReaderSeesOneOperationOrNone) {
  const auto table = std::make_unique<OperationTable>();
  std::atomic<uint64_t> newest{table->remember(numbered(0))};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> torn{0};
  std::thread reader([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      const auto found = table->find(newest.load(std::memory_order_relaxed));
      if (found && !is_whole(*found)) torn.fetch_add(1, std::memory_order_relaxed);
    }
  });
  for (int32_t i = 0; i < 200'000; ++i) {
    newest.store(table->remember(numbered(i % 100)), std::memory_order_relaxed);
  }
  stop.store(true, std::memory_order_relaxed);
  reader.join();
  EXPECT_EQ(torn.load(), 0u);
}

}  // namespace
}  // namespace lyre::nccl_adapter
