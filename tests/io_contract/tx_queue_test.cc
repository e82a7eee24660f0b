#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "stack/io/dpdk/memory.h"
#include "stack/io/dpdk/queue.h"
#include "tests/io_contract/dpdk_wire.h"

// What a queue says of packets that it gave to a driver, with a driver that the test plays: it
// takes as many as it has room for, and frees them when it is told to.
namespace lyre::io::contract {
namespace {

constexpr uint16_t kPortId = RTE_MAX_ETHPORTS - 1;  // no device has it: its link is down

struct PlayedDriver {
  size_t room = 0;
  std::deque<rte_mbuf*> held;

  void free(size_t count) {
    for (; count > 0; --count, held.pop_front()) rte_pktmbuf_free(held.front());
  }
} driver;

uint16_t send_to_driver(void*, rte_mbuf** packets, uint16_t count) {
  uint16_t taken = 0;
  for (; taken < count && driver.held.size() < driver.room; ++taken) {
    driver.held.push_back(packets[taken]);
  }
  return taken;
}

class TxQueue : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = environment();
    ASSERT_TRUE(started) << started.error().text;
    auto made = (*started)->make_memory(0, {.rx_slots = 64, .tx_packets = 256});
    ASSERT_TRUE(made) << made.error().text;
    memory = std::move(*made);
    static void* no_data[RTE_MAX_QUEUES_PER_PORT] = {};
    struct rte_eth_fp_ops& calls = rte_eth_fp_ops[kPortId];
    calls.tx_pkt_burst = send_to_driver;
    calls.txq.data = no_data;
    calls.txq.clbk = no_data;
    quirks.frees = dpdk::Frees::kWhenSending;
    queue = std::make_unique<dpdk::Queue>(
        dpdk::QueueSetup{
            .port_id = kPortId, .quirks = &quirks, .is_nic_up = &is_nic_up, .limits = {8, 8}},
        static_cast<dpdk::Memory&>(*memory));
    queue->start();
  }
  void TearDown() override {
    driver.free(driver.held.size());
    queue.reset();
    memory.reset();
  }
  void send(size_t count) {
    std::vector<PacketBuf*> packets(count);
    ASSERT_EQ(memory->alloc_tx(packets), count);
    for (PacketBuf* packet : packets) packet->length = 60;
    ASSERT_EQ(queue->tx_burst(packets), count);
  }

  std::unique_ptr<PacketMemory> memory;
  dpdk::DriverQuirks quirks;
  std::atomic<bool> is_nic_up{false};
  std::unique_ptr<dpdk::Queue> queue;
};

TEST_F(TxQueue, HoldsWhatTheDriverHolds) {
  driver.room = 100;
  send(20);
  EXPECT_EQ(queue->tx_held(), 20u);
  driver.free(20);
  queue->reclaim();
  EXPECT_EQ(queue->tx_held(), 0u);
}

// Of a burst of which the driver took a part, the rest is dropped when the link is down. The part
// is still in the driver's ring.
TEST_F(TxQueue, HoldsThePartOfABurstThatTheDriverTook) {
  driver.room = 10;
  send(20);
  ASSERT_EQ(driver.held.size(), 10u);
  queue->reclaim();
  ASSERT_EQ(queue->counters().tx_dropped, 10u);
  EXPECT_GE(queue->tx_held(), 10u);
  driver.free(5);
  queue->reclaim();
  EXPECT_GE(queue->tx_held(), 5u);
  driver.free(5);
  driver.room = 100;
  send(1);  // and what is sent later shows that all before it was freed
  driver.free(1);
  queue->reclaim();
  EXPECT_EQ(queue->tx_held(), 0u);
}

TEST_F(TxQueue, HoldsThePartOfABurstUntilTheDriverIsClosed) {
  driver.room = 10;
  send(20);
  queue->suspend();
  EXPECT_GE(queue->tx_held(), 10u);
  driver.free(10);
  queue->on_closed();
  queue->reclaim();
  EXPECT_EQ(queue->tx_held(), 0u);
}

// The worker does not ask a NIC's driver, which the control thread asks.
TEST_F(TxQueue, KeepsWaitingPacketsWhileTheControlThreadSawTheLinkUp) {
  is_nic_up = true;
  EXPECT_TRUE(queue->is_link_up());
  driver.room = 10;
  send(20);
  queue->reclaim();
  EXPECT_EQ(queue->counters().tx_dropped, 0u);
  is_nic_up = false;
  queue->reclaim();
  EXPECT_EQ(queue->counters().tx_dropped, 10u);
  queue->suspend();
  is_nic_up = true;
  EXPECT_FALSE(queue->is_link_up()) << "it does not run";
}

// A queue for which no worker waits may keep what it has: the worker calls note_wait() otherwise.
TEST_F(TxQueue, CountsTheWaitsThatTheWorkerTells) {
  driver.room = 100;
  send(1);
  const uint64_t before = queue->tx_progress().waits;
  for (int i = 0; i < 10; ++i) queue->reclaim();
  EXPECT_EQ(queue->tx_progress().waits, before);
  queue->note_wait();
  EXPECT_EQ(queue->tx_progress().waits, before + 1);
}

}  // namespace
}  // namespace lyre::io::contract
