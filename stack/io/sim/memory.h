#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stack/io/packet_io.h"

namespace lyre::io::sim {

struct MemoryOptions {
  uint32_t rx_slots = 1024;
  uint32_t frame_bytes = 1536;  ///< room of a receive slot, headroom apart
  uint32_t tx_packets = 1024;
  uint32_t segment_bytes = UINT32_MAX;  ///< of all regions: see region_segment_bytes()
};

/// Packet memory without a device: slots on a sealed memfd, everything else on the heap. All
/// references are indices, so copy_from() can restore any earlier state.
/// Thread: one. Fails: construction aborts when there is no memory.
class Memory final : public PacketMemory {
 public:
  explicit Memory(const MemoryOptions& options);
  ~Memory() override;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  size_t alloc_tx(std::span<PacketBuf*> out) override;
  PacketBuf* alloc_rx() override;
  void release(std::span<PacketBuf* const> packets) override;
  void return_cached() override {}
  PacketBuf* rx_packet(uint32_t slot) override { return &rx_.packets[slot]; }
  uint32_t rx_slot_count() const override { return static_cast<uint32_t>(rx_.packets.size()); }
  uint32_t rx_slots_free() const override { return static_cast<uint32_t>(rx_.free.size()); }
  uint32_t rx_slot_bytes() const override { return rx_.stride_bytes; }
  int rx_memory_fd() const override { return rx_fd_; }
  std::span<const uint8_t> rx_memory() const override {
    return {rx_.base, size_t{rx_.stride_bytes} * rx_.packets.size()};
  }
  bool add_region(uint32_t region, const RegionMemory& memory) override;
  void remove_region(uint32_t region) override;
  uint32_t region_holds(uint32_t region) const override;
  uint32_t region_segment_bytes(uint32_t) const override { return segment_bytes_; }

  /// The bytes of `piece`; empty when its region was removed. Aborts outside the region.
  std::span<const uint8_t> bytes_of(const BufRef& piece) const;
  void hold(uint32_t region) { ++regions_[region].holds; }
  void let_go(uint32_t region) { --regions_[region].holds; }

  /// Makes this memory equal to `other`, which has the same options: bytes, packets, regions.
  /// PacketBufs keep their addresses here; a PacketBuf* of `other` is translated by its index.
  void copy_from(const Memory& other);
  /// A test's: called with `watcher` before packets are free.
  void (*on_release)(void* watcher) = nullptr;
  void* watcher = nullptr;
  uint32_t tx_slots_free() const { return static_cast<uint32_t>(tx_.free.size()); }

 private:
  struct Pool {
    uint8_t* base = nullptr;
    uint32_t stride_bytes = 0;
    std::vector<PacketBuf> packets;
    std::vector<uint32_t> free;
    std::vector<uint8_t> is_taken;
  };
  struct Region {
    const uint8_t* base = nullptr;
    uint64_t bytes = 0;
    uint32_t holds = 0;
    bool is_known = false;
  };
  static void shape(Pool& pool, uint32_t count, uint32_t room_bytes);
  static PacketBuf* take(Pool& pool);
  static void copy_pool(Pool& to, const Pool& from);

  Pool rx_;
  Pool tx_;
  std::vector<uint8_t> tx_bytes_;
  std::vector<Region> regions_;
  uint32_t segment_bytes_;
  int rx_fd_ = -1;
};

}  // namespace lyre::io::sim
