#include "stack/io/dpdk/watched_pool.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "stack/io/dpdk/kernel_interface.h"
#include "stack/io/dpdk/mbuf_layout.h"

namespace lyre::io::dpdk {

WatchedPool::WatchedPool(Memory& memory)
    : memory_(memory), holders_(memory.rx_slot_count(), kNone) {
  static_assert(offsetof(Descriptor, layout) == sizeof(rte_mempool),
                "rte_mempool_get_priv() looks there where cache_size is 0");
  rte_mempool* own = memory_.rx_mempool();
  descriptor_.mempool = *own;
  descriptor_.layout = *static_cast<rte_pktmbuf_pool_private*>(rte_mempool_get_priv(own));
  descriptor_.mempool.cache_size = 0;
  descriptor_.mempool.local_cache = nullptr;
  descriptor_.mempool.pool_data = this;
  descriptor_.mempool.ops_index = ops_index();
}

/// Negative: DPDK has no room for another kind of pool.
int WatchedPool::ops_index() {
  static const int index = [] {
    rte_mempool_ops ops = {};
    std::copy_n("lyre-watched", sizeof("lyre-watched"), ops.name);
    ops.alloc = [](rte_mempool*) { return 0; };
    ops.enqueue = enqueue;
    ops.dequeue = dequeue;
    ops.get_count = free_count;
    return rte_mempool_register_ops(&ops);
  }();
  return index;
}

rte_mempool* WatchedPool::mempool() {
  return ops_index() < 0 ? memory_.rx_mempool() : &descriptor_.mempool;
}

int WatchedPool::enqueue(rte_mempool* mempool, void* const* objects, unsigned count) {
  auto& self = *static_cast<WatchedPool*>(mempool->pool_data);
  for (unsigned i = 0; i < count; ++i) self.put(*static_cast<rte_mbuf*>(objects[i]));
  return 0;
}

int WatchedPool::dequeue(rte_mempool* mempool, void** objects, unsigned count) {
  auto& self = *static_cast<WatchedPool*>(mempool->pool_data);
  if (rte_mempool_get_bulk(self.memory_.rx_mempool(), objects, count) != 0) return -ENOBUFS;
  for (unsigned i = 0; i < count; ++i) {
    auto* mbuf = static_cast<rte_mbuf*>(objects[i]);
    mbuf->pool = mempool;
    self.holders_[packet_of(mbuf)->slot] = kDriver;
  }
  return 0;
}

unsigned WatchedPool::free_count(const rte_mempool* mempool) {
  return static_cast<WatchedPool*>(mempool->pool_data)->memory_.rx_slots_free();
}

void WatchedPool::put(rte_mbuf& mbuf) {
  holders_[packet_of(&mbuf)->slot] = kNone;
  mbuf.pool = memory_.rx_mempool();
  rte_mempool_put(mbuf.pool, &mbuf);
}

void WatchedPool::on_received(std::span<rte_mbuf* const> packets) {
  for (rte_mbuf* mbuf : packets) {
    for (; mbuf != nullptr; mbuf = mbuf->next) {
      holders_[packet_of(mbuf)->slot] = kNone;
      mbuf->pool = memory_.rx_mempool();
    }
  }
}

/// With zero-copy the NIC writes into the slots, and the kernel stops that some time after the
/// socket is closed, which nobody is told of; it has when the interface is gone. Without zero-copy
/// the kernel has done its last copy.
void WatchedPool::take_back(uint32_t interface, bool is_zero_copy) {
  for (uint32_t slot = 0; slot < holders_.size(); ++slot) {
    uint32_t& holder = holders_[slot];
    if (holder == kDriver && is_zero_copy) holder = interface;
    if (holder == kNone || (holder != kDriver && !is_index_gone(holder))) continue;
    put(*mbuf_of(memory_.rx_packet(slot)));
  }
  memory_.return_cached();
}

bool WatchedPool::has_room(uint32_t ring_slots) const {
  const bool is_any_kept = std::any_of(holders_.begin(), holders_.end(), [](uint32_t holder) {
    return holder != kNone && holder != kDriver;
  });
  return !is_any_kept || memory_.rx_slots_free() >= memory_.rx_slot_count() / 4 + ring_slots;
}

std::vector<rte_mempool*> WatchedPools::mempools() const {
  std::vector<rte_mempool*> out;
  for (const auto& pool : pools_) out.push_back(pool->mempool());
  return out;
}

bool WatchedPools::has_room(uint32_t ring_slots) const {
  return std::all_of(pools_.begin(), pools_.end(),
                     [&](const auto& pool) { return pool->has_room(ring_slots); });
}

}  // namespace lyre::io::dpdk
