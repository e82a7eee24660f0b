#include "stack/io/dpdk/queue.h"

#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "stack/io/dpdk/environment.h"
#include "stack/io/dpdk/memory.h"

namespace lyre::io::dpdk {
namespace {

constexpr uint16_t kPortId = RTE_MAX_ETHPORTS - 1;  // no device has it

/// A driver that the test plays: it keeps packets until it is asked for those that were sent, or is
/// given an empty burst.
struct PlayedDriver {
  size_t room = 0;
  int asked_answer = 0;  ///< of tx_done_cleanup
  std::deque<rte_mbuf*> held;

  void free_all() {
    for (; !held.empty(); held.pop_front()) rte_pktmbuf_free(held.front());
  }
} played;

uint16_t take(void*, rte_mbuf** packets, uint16_t count) {
  if (count == 0) played.free_all();
  uint16_t taken = 0;
  for (; taken < count && played.held.size() < played.room; ++taken) {
    played.held.push_back(packets[taken]);
  }
  return taken;
}

/// DPDK, started once in this process.
Backend* environment() {
  static std::unique_ptr<Backend> started;
  if (started != nullptr) return started.get();
  auto made = start_environment({.file_prefix = "lyre-unit-queue-" + std::to_string(::getpid())});
  if (!made || !(*made)->register_worker_thread()) return nullptr;
  started = std::move(*made);
  return started.get();
}

/// Queues of a port that cannot gather: each packet with a piece takes one of 64 copies.
class QueueOfCopies : public ::testing::Test {
 protected:
  static constexpr uint32_t kCopies = 64;
  static constexpr uint32_t kRegion = 3;

  void SetUp() override {
    played = {.room = 1000, .asked_answer = 0, .held = {}};
    ASSERT_NE(environment(), nullptr);
    auto made = environment()->make_memory(0, {.rx_slots = 64, .tx_packets = kCopies});
    ASSERT_TRUE(made) << made.error().text;
    memory = std::move(*made);
    ASSERT_TRUE(memory->add_region(kRegion, {client.data(), client.size()}));
    static void* no_data[RTE_MAX_QUEUES_PER_PORT] = {};
    struct rte_eth_fp_ops& calls = rte_eth_fp_ops[kPortId];
    calls.tx_pkt_burst = take;
    calls.txq.data = no_data;
    calls.txq.clbk = no_data;
    queue = make_queue();
    other = make_queue();
  }
  void TearDown() override {
    played.free_all();
    queue.reset();
    other.reset();
    memory.reset();
  }
  std::unique_ptr<Queue> make_queue() {
    auto made = std::make_unique<Queue>(
        QueueSetup{
            .port_id = kPortId, .quirks = &quirks, .is_nic_up = &is_nic_up, .limits = {1, 1}},
        static_cast<Memory&>(*memory));
    made->start();
    return made;
  }
  /// Sends `count` packets with a piece each; returns how many the queue took.
  size_t send(Queue& by, size_t count) {
    std::vector<PacketBuf*> packets(count);
    EXPECT_EQ(memory->alloc_tx(packets), count);
    for (PacketBuf* packet : packets) {
      packet->length = 54;
      packet->pieces[0] = {kRegion, static_cast<uint32_t>(client.size()), 0};
      packet->piece_count = 1;
    }
    const size_t taken = by.tx_burst(packets);
    memory->release(std::span(packets).subspan(taken));
    return taken;
  }
  void send_all_copies(Queue& by) {
    for (uint32_t i = 0; i < kCopies; ++i) ASSERT_EQ(send(by, 1), 1u);
    ASSERT_EQ(played.held.size(), size_t{kCopies});
  }

  const std::vector<uint8_t> client = std::vector<uint8_t>(1000, 7);
  DriverQuirks quirks;
  std::atomic<bool> is_nic_up{true};
  std::unique_ptr<PacketMemory> memory;
  std::unique_ptr<Queue> queue;
  std::unique_ptr<Queue> other;
};

// The driver was not called any more, because nothing could be prepared. The port was started again
// after ten seconds.
TEST_F(QueueOfCopies, AsksTheDriverForTheCopiesThatItSent) {
  send_all_copies(*queue);
  EXPECT_EQ(send(*queue, 2), 2u);
  EXPECT_EQ(queue->tx_held(), 2u);
  EXPECT_EQ(queue->counters().tx_full, 0u);
}

// mana frees in a burst only.
TEST_F(QueueOfCopies, AsksADriverWithoutACallForItByAnEmptyBurst) {
  played.asked_answer = -ENOTSUP;
  send_all_copies(*queue);
  EXPECT_EQ(send(*queue, 1), 1u);
}

// It had to send by itself first, which it did not while it had nothing to send.
TEST_F(QueueOfCopies, AsksTheDriversOfOtherPortsAsWell) {
  send_all_copies(*queue);
  EXPECT_EQ(send(*other, 1), 1u);
  EXPECT_EQ(queue->tx_held(), 0u);
}

// mlx4, which has a ring smaller than the copies: it frees nothing when it is asked.
TEST_F(QueueOfCopies, TakesNothingWhereTheDriverFreesNothing) {
  quirks.frees = Frees::kWhenSending;
  send_all_copies(*queue);
  EXPECT_EQ(send(*queue, 1), 0u);
  EXPECT_EQ(queue->counters().tx_full, 1u);
}

// A port was started again that held nothing.
TEST_F(QueueOfCopies, DoesNotWaitForADriverThatHoldsNothing) {
  quirks.frees = Frees::kWhenSending;
  send_all_copies(*queue);
  EXPECT_EQ(send(*other, 1), 0u);
  EXPECT_EQ(other->counters().tx_full, 1u);
  EXPECT_EQ(other->tx_progress().waits, 0u);
}

TEST_F(QueueOfCopies, WaitsForADriverWhoseRingIsFull) {
  played.room = 10;
  EXPECT_EQ(send(*queue, 20), 20u) << "ten are pending";
  EXPECT_EQ(send(*queue, 1), 0u);
  EXPECT_EQ(queue->tx_progress().waits, 1u);
}

}  // namespace
}  // namespace lyre::io::dpdk

/// DPDK's function, in front of which this program has one of the same name.
extern "C" int rte_eth_tx_done_cleanup(uint16_t, uint16_t, uint32_t) {
  using lyre::io::dpdk::played;
  if (played.asked_answer == 0) played.free_all();
  return played.asked_answer;
}
