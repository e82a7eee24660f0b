#pragma once

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "stack/base/result.h"
#include "stack/io/dpdk/memory.h"

namespace lyre::io::dpdk {

/// The receive pool of a worker, for a driver that does not free the packets in its rings when it
/// closes (AF_XDP, mana): this class knows which ones they are. While the driver holds a packet,
/// this is the packet's pool, so that the driver frees it into this one.
/// Thread: the worker of the queue; while the queue is suspended, the control thread.
class WatchedPool {
 public:
  explicit WatchedPool(Memory& memory);
  WatchedPool(const WatchedPool&) = delete;
  WatchedPool& operator=(const WatchedPool&) = delete;

  /// For the driver only: it allocates, frees, and reads where the packets are.
  rte_mempool* mempool();
  /// The driver has received these packets and holds them no longer.
  void on_received(std::span<rte_mbuf* const> packets);
  /// Frees the packets that the driver held. Those that a NIC may still write are kept until its
  /// interface is gone. `interface`: the index of the one that the driver used; 0: it used none.
  /// REQUIRES: the device is closed, and its sockets are.
  void take_back(uint32_t interface, bool is_zero_copy);
  /// False: slots are kept for a NIC, and with a ring of `ring_slots` less than a quarter of the
  /// pool would be free.
  bool has_room(uint32_t ring_slots) const;

 private:
  /// What DPDK's functions read of a mempool without a cache.
  struct Descriptor {
    rte_mempool mempool;
    rte_pktmbuf_pool_private layout;
  };
  static constexpr uint32_t kNone = 0;  ///< indices of interfaces begin at 1
  static constexpr uint32_t kDriver = UINT32_MAX;

  static int ops_index();
  static int enqueue(rte_mempool* mempool, void* const* objects, unsigned count);
  static int dequeue(rte_mempool* mempool, void** objects, unsigned count);
  static unsigned free_count(const rte_mempool* mempool);
  void put(rte_mbuf& mbuf);

  Memory& memory_;
  /// Of each slot: kNone, kDriver, or the interface whose NIC may write it.
  std::vector<uint32_t> holders_;
  Descriptor descriptor_{};
};

/// Those of a port; none for a port of another driver.
class WatchedPools {
 public:
  /// Makes a pool for each memory, unless there are pools already.
  void make(std::span<Memory* const> memories) {
    if (!pools_.empty()) return;
    for (Memory* memory : memories) pools_.push_back(std::make_unique<WatchedPool>(*memory));
  }
  /// nullptr: the driver uses the memory's own pool.
  WatchedPool* of_queue(uint16_t queue) const {
    return queue < pools_.size() ? pools_[queue].get() : nullptr;
  }
  /// Those that the driver allocates from.
  std::vector<rte_mempool*> mempools() const;
  /// As WatchedPool has it.
  void take_back(uint32_t interface, bool is_zero_copy) {
    for (const auto& pool : pools_) pool->take_back(interface, is_zero_copy);
  }
  bool has_room(uint32_t ring_slots) const;

 private:
  std::vector<std::unique_ptr<WatchedPool>> pools_;
};

}  // namespace lyre::io::dpdk
