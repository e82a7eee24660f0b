#pragma once

#include <memory>
#include <vector>

#include "stack/io/dpdk/environment.h"
#include "stack/io/dpdk/pool.h"
#include "stack/io/dpdk/region_table.h"

namespace lyre::io::dpdk {

/// Process-wide facts that a worker's memory depends on.
struct MemoryContext {
  PageKind pages = PageKind::kAny;
  bool is_physical = false;
  DmaMap* dma_map = nullptr;
};

/// Bytes of a receive buffer, headroom included, in which a frame of the MTU fits with each of the
/// options' devices.
uint16_t receive_room_bytes(const MemoryOptions& options);

/// Packets that a queue keeps while the transmit ring of its port is full.
inline constexpr uint32_t kQueuePendingMax = 64;

/// Buffers for packets that are copied before they are sent, by all ports together. The rings of
/// drivers that read packet memory only, and cannot be asked to free what they sent (mlx4, also
/// below netvsc), never hold all of them: such a driver frees when it is given another packet.
uint32_t copy_packets(const MemoryOptions& options);

/// The packet memory of one worker on mempools.
/// Thread: the worker, registered with DPDK.
class Memory final : public PacketMemory {
 public:
  static Result<std::unique_ptr<Memory>> make(const MemoryContext& context, uint32_t worker,
                                              const MemoryOptions& options);
  ~Memory() override;

  size_t alloc_tx(std::span<PacketBuf*> out) override;
  PacketBuf* alloc_rx() override;
  void release(std::span<PacketBuf* const> packets) override;
  void return_cached() override;
  PacketBuf* rx_packet(uint32_t slot) override { return rx_by_slot_[slot]; }
  uint32_t rx_slot_count() const override { return static_cast<uint32_t>(rx_by_slot_.size()); }
  uint32_t rx_slots_free() const override { return rx_->free_count(); }
  uint32_t rx_slot_bytes() const override { return rx_->stride_bytes(); }
  int rx_memory_fd() const override { return rx_->memory().fd(); }
  std::span<const uint8_t> rx_memory() const override {
    return {rx_->memory().base(), rx_->memory().bytes()};
  }
  bool add_region(uint32_t region, const RegionMemory& memory) override {
    return regions_.add(region, memory);
  }
  void remove_region(uint32_t region) override { regions_.remove(region); }
  uint32_t region_holds(uint32_t region) const override { return regions_.holds(region); }

  uint32_t region_segment_bytes(uint32_t region) const override {
    return regions_.segment_bytes(region);
  }

  /// Asks all ports for the buffers of packets that they have sent.
  void reclaim() {
    for (PacketIo* queue : queues_) queue->reclaim();
  }

  // For the queues of this worker.
  /// Thread: the control thread, while the worker does not poll.
  void add_queue(PacketIo& queue) { queues_.push_back(&queue); }
  void remove_queue(PacketIo& queue) { std::erase(queues_, &queue); }
  rte_mempool* rx_mempool() const { return rx_->mempool(); }
  rte_mempool* piece_mempool() const { return pieces_->mempool(); }
  rte_mempool* copy_mempool() const { return copies_->mempool(); }
  RegionTable& regions() { return regions_; }
  /// After a device was opened again, which may not reach all that it did. REQUIRES: the worker
  /// does not poll.
  void look_at_regions_again() { regions_.look_again(); }
  /// A port of this worker takes no segment of more bytes. Thread: the control thread, the first
  /// time before the worker adds regions.
  void limit_segments(uint32_t bytes) { regions_.limit_parts(bytes); }

 private:
  explicit Memory(const MemoryContext& context)
      : dma_map_(*context.dma_map), regions_(*context.dma_map) {}
  Status make_pools(const MemoryContext& context, uint32_t worker, const MemoryOptions& options);
  void number_slots();

  DmaMap& dma_map_;
  std::unique_ptr<Pool> rx_;
  std::unique_ptr<Pool> tx_;      ///< headers and small payload
  std::unique_ptr<Pool> pieces_;  ///< mbufs without memory, to attach client memory to
  std::unique_ptr<Pool> copies_;  ///< whole frames, for ports that cannot gather
  std::vector<PacketBuf*> rx_by_slot_;
  std::vector<PacketIo*> queues_;
  mutable RegionTable regions_;  ///< mutable: region_holds() completes removals
};

}  // namespace lyre::io::dpdk
