#include "stack/worker/tx_stock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "stack/io/sim/memory.h"

namespace lyre::worker {
namespace {

TEST(TxStock, TakesPacketsInBulkAndGivesThemBack) {
  constexpr uint32_t kPackets = kTxStockPackets + 3;
  io::sim::Memory memory({.rx_slots = 8, .tx_packets = kPackets});
  std::vector<io::PacketBuf*> taken;
  {
    TxStock stock(memory);
    EXPECT_EQ(stock.try_take(), nullptr);
    ASSERT_TRUE(stock.try_refill());
    EXPECT_EQ(memory.tx_slots_free(), 3u);
    for (uint32_t i = 0; i < kPackets; ++i) {
      if (stock.size() == 0) {
        ASSERT_TRUE(stock.try_refill());
      }
      taken.push_back(stock.try_take());
    }
    EXPECT_FALSE(stock.try_refill());
    EXPECT_EQ(stock.try_take(), nullptr);
    stock.put_back(taken.back());
    EXPECT_EQ(stock.try_take(), taken.back());
    stock.put_back(taken.back());
    taken.pop_back();
    std::vector<io::PacketBuf*> sorted = taken;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end());
  }
  memory.release(taken);
  EXPECT_EQ(memory.tx_slots_free(), kPackets) << "the stock gave back what it had";
}

}  // namespace
}  // namespace lyre::worker
