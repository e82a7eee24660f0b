#pragma once

#include <rte_mbuf_core.h>

#include <cstdint>
#include <memory>
#include <span>

#include "stack/base/buf_ref.h"
#include "stack/io/dpdk/dma_map.h"
#include "stack/io/packet_io.h"

namespace lyre::io::dpdk {

/// The client memory that one worker's ports may read, and how much of it they hold.
/// Thread: one worker.
/// How holds are counted: every attached segment refers to its region's one shared info, whose
/// count stands at 1 while the region is known, so that DPDK's callback never runs.
class RegionTable {
 public:
  explicit RegionTable(DmaMap& dma_map);
  ~RegionTable();
  RegionTable(const RegionTable&) = delete;
  RegionTable& operator=(const RegionTable&) = delete;

  bool add(uint32_t region, const RegionMemory& memory);
  void remove(uint32_t region);
  uint32_t holds(uint32_t region);

  /// The bytes that `piece` names; empty when its region is gone.
  /// REQUIRES: a piece inside its region, as everything above this layer has checked.
  std::span<const uint8_t> bytes_of(const BufRef& piece) const;
  /// True when devices can fetch from the region; otherwise its pieces are copied.
  bool is_readable_by_ports(uint32_t region) const { return regions_[region].is_dma_ready; }
  rte_mbuf_ext_shared_info* shared_info(uint32_t region) { return &regions_[region].shared; }
  /// The address by which ports know `offset`, and how many bytes from there lie in one run.
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
};

}  // namespace lyre::io::dpdk
