#pragma once

#include <rte_mbuf_core.h>

#include <cstdint>
#include <memory>
#include <span>

#include "stack/base/buf_ref.h"
#include "stack/io/dpdk/dma_map.h"
#include "stack/io/packet_io.h"

namespace lyre::io::dpdk {

/// The client memory that one worker's ports may read, and the number of references that they hold
/// to it.
/// Thread: one worker.
/// Every attached segment refers to its region's one shared info. Its reference count is 1 while
/// the region is known, so DPDK's free callback never runs.
class RegionTable {
 public:
  explicit RegionTable(DmaMap& dma_map);
  ~RegionTable();
  RegionTable(const RegionTable&) = delete;
  RegionTable& operator=(const RegionTable&) = delete;

  bool add(uint32_t region, const RegionMemory& memory);
  void remove(uint32_t region);
  uint32_t holds(uint32_t region);
  /// Asks anew which regions devices can read. REQUIRES: the worker does not poll.
  void look_again();

  /// The bytes of `piece`; empty when its region was removed.
  /// REQUIRES: a piece inside its region; the layers above have checked it.
  std::span<const uint8_t> bytes_of(const BufRef& piece) const;
  /// True when devices can read the region; otherwise its pieces are copied.
  bool is_readable_by_ports(uint32_t region) const { return regions_[region].is_dma_ready; }
  /// Devices read no part of more than `bytes` as one segment; parts are powers of two. Never
  /// undone. REQUIRES: bytes > 0, and no region is known unless as small a limit is set already.
  void limit_parts(uint32_t bytes);
  /// As PacketMemory::region_segment_bytes().
  uint32_t segment_bytes(uint32_t region) const;
  rte_mbuf_ext_shared_info* shared_info(uint32_t region) { return &regions_[region].shared; }
  /// The address of `offset` for devices, and the number of bytes from there that they can read as
  /// one segment.
  struct Run {
    uint64_t iova;
    uint64_t bytes;
  };
  Run run_at(uint32_t region, uint64_t offset) const;

 private:
  enum class State : uint8_t { kFree, kKnown, kRemoved };
  struct Region {
    const uint8_t* base = nullptr;
    uint64_t bytes = 0;
    rte_mbuf_ext_shared_info shared = {};
    State state = State::kFree;
    bool is_dma_ready = false;
    uint64_t page_bytes = 0;
    std::span<const uint64_t> page_iovas;  ///< of each page, where devices know physical addresses
  };
  void finish_removal(Region& region);

  DmaMap& dma_map_;
  std::unique_ptr<Region[]> regions_;
  /// Parts of a region start at multiples of it, as pages do. A power of two.
  uint64_t part_bytes_ = uint64_t{1} << 63;
};

}  // namespace lyre::io::dpdk
