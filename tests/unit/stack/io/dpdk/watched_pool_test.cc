#include "stack/io/dpdk/watched_pool.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>

#include "stack/io/dpdk/environment.h"
#include "stack/io/dpdk/mbuf_layout.h"
#include "tests/support/no_descriptors_left.h"

namespace lyre::io::dpdk {
namespace {

/// DPDK, started once in this process.
Backend* environment() {
  static std::unique_ptr<Backend> started;
  if (started != nullptr) return started.get();
  auto made = start_environment({.file_prefix = "lyre-unit-pool-" + std::to_string(::getpid())});
  if (!made || !(*made)->register_worker_thread()) return nullptr;
  started = std::move(*made);
  return started.get();
}

/// A receive pool of 64 slots, of which a driver takes 32 for its ring.
class WatchedPoolOfAQueue : public ::testing::Test {
 protected:
  static constexpr uint32_t kSlots = 64;
  static constexpr uint32_t kRing = 32;
  static constexpr uint32_t kGone = INT32_MAX;  ///< no interface has this index

  void SetUp() override {
    ASSERT_NE(environment(), nullptr);
    auto made = environment()->make_memory(0, {.rx_slots = kSlots, .tx_packets = 64});
    ASSERT_TRUE(made) << made.error().text;
    memory = std::move(*made);
    pool = std::make_unique<WatchedPool>(static_cast<Memory&>(*memory));
    ASSERT_EQ(rte_pktmbuf_alloc_bulk(pool->mempool(), ring.data(), kRing), 0);
    ASSERT_EQ(memory->rx_slots_free(), kSlots - kRing);
  }

  std::unique_ptr<PacketMemory> memory;
  std::unique_ptr<WatchedPool> pool;
  std::array<rte_mbuf*, kRing> ring{};
  const uint32_t loopback = if_nametoindex("lo");
};

TEST_F(WatchedPoolOfAQueue, TakesBackWhatTheDriverHoldsAndNothingElse) {
  pool->on_received(std::span(ring).first(2));
  rte_pktmbuf_free(ring[2]);  // by the driver: sent
  PacketBuf* kept = packet_of(ring[0]);
  PacketBuf* released = packet_of(ring[1]);
  memory->release({&released, 1});
  PacketBuf* other = memory->alloc_rx();
  pool->take_back(loopback, false);
  EXPECT_EQ(memory->rx_slots_free(), kSlots - 2);
  memory->release({&kept, 1});
  memory->release({&other, 1});
  EXPECT_EQ(memory->rx_slots_free(), kSlots);
  pool->take_back(loopback, false);
  EXPECT_EQ(memory->rx_slots_free(), kSlots) << "none is freed twice";
}

TEST_F(WatchedPoolOfAQueue, LooksLikeTheReceivePoolToADriver) {
  rte_mempool& own = *static_cast<Memory&>(*memory).rx_mempool();
  rte_mempool& seen = *pool->mempool();
  EXPECT_EQ(STAILQ_FIRST(&seen.mem_list)->addr, STAILQ_FIRST(&own.mem_list)->addr);
  EXPECT_EQ(seen.populated_size, own.populated_size);
  EXPECT_EQ(seen.header_size, own.header_size);
  EXPECT_EQ(rte_pktmbuf_data_room_size(&seen), rte_pktmbuf_data_room_size(&own));
  EXPECT_EQ(rte_pktmbuf_priv_size(&seen), rte_pktmbuf_priv_size(&own));
}

// The kernel stops a NIC that writes into the slots some time after the socket is closed.
TEST_F(WatchedPoolOfAQueue, KeepsWhatANicMayWriteAndRefusesARingForWhichThereIsNoRoom) {
  if (loopback == 0) GTEST_SKIP() << "there is no loopback interface";
  EXPECT_TRUE(pool->has_room(kSlots)) << "nothing is kept";
  pool->take_back(loopback, true);
  EXPECT_EQ(memory->rx_slots_free(), kSlots - kRing);
  EXPECT_TRUE(pool->has_room(kSlots / 4));
  EXPECT_FALSE(pool->has_room(kSlots / 4 + 1));
}

// Its slots were handed out while the NIC could still write them.
TEST_F(WatchedPoolOfAQueue, KeepsWhatANicMayWriteWhileItCannotBeLookedFor) {
  if (loopback == 0) GTEST_SKIP() << "there is no loopback interface";
  const test::NoDescriptorsLeft none;
  pool->take_back(loopback, true);
  EXPECT_EQ(memory->rx_slots_free(), kSlots - kRing);
}

TEST_F(WatchedPoolOfAQueue, TakesBackWhatANicWroteWhenItIsGone) {
  pool->take_back(kGone, true);
  EXPECT_EQ(memory->rx_slots_free(), kSlots);
}

}  // namespace
}  // namespace lyre::io::dpdk
