#include "stack/io/dpdk/region_table.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "stack/base/check.h"
#include "stack/io/backend.h"

namespace lyre::io::dpdk {
namespace {

/// DPDK calls this when a shared reference count reaches zero. The table holds a reference itself,
/// so it never does.
void must_not_run(void*, void*) {
  constexpr bool kCountFellToZero = true;
  LYRE_CHECK(!kCountFellToZero);
}

// All pieces of a worker may be in one region, whose table has one reference more. DPDK's count
// has 16 bits and wraps without a word.
using ReferenceCount = decltype(rte_mbuf_ext_refcnt_read(nullptr));
static_assert(kPiecesInPortsMax < std::numeric_limits<ReferenceCount>::max());

}  // namespace

RegionTable::RegionTable(DmaMap& dma_map) : dma_map_(dma_map), regions_(new Region[kRegionsMax]) {}

RegionTable::~RegionTable() {
  for (uint32_t i = 0; i < kRegionsMax; ++i) {
    if (regions_[i].state != State::kFree) finish_removal(regions_[i]);
  }
}

bool RegionTable::add(uint32_t region, const RegionMemory& memory) {
  if (region >= kRegionsMax || memory.base == nullptr || memory.bytes == 0) return false;
  if (regions_[region].state != State::kFree && holds(region) > 0) return false;
  Region& entry = regions_[region];
  if (entry.state != State::kFree) return false;
  entry.base = memory.base;
  entry.bytes = memory.bytes;
  entry.shared.free_cb = must_not_run;
  rte_mbuf_ext_refcnt_set(&entry.shared, 1);
  entry.state = State::kKnown;
  entry.page_bytes = memory.page_bytes;
  entry.is_dma_ready = dma_map_.add(memory.base, memory.bytes, memory.page_bytes).ok();
  entry.page_iovas = dma_map_.page_addresses(memory.base);
  return true;
}

void RegionTable::remove(uint32_t region) {
  if (region >= kRegionsMax || regions_[region].state != State::kKnown) return;
  regions_[region].state = State::kRemoved;
  holds(region);
}

void RegionTable::finish_removal(Region& region) {
  dma_map_.remove(region.base, region.bytes);
  region.page_iovas = {};
  region.is_dma_ready = false;
  region.base = nullptr;
  region.bytes = 0;
  region.state = State::kFree;
}

uint32_t RegionTable::holds(uint32_t region) {
  if (region >= kRegionsMax || regions_[region].state == State::kFree) return 0;
  Region& entry = regions_[region];
  const uint32_t held = rte_mbuf_ext_refcnt_read(&entry.shared) - 1u;
  // The caller unmaps the memory once holds are 0, so devices must no longer map it by then.
  if (held == 0 && entry.state == State::kRemoved) finish_removal(entry);
  return held;
}

void RegionTable::look_again() {
  for (uint32_t i = 0; i < kRegionsMax; ++i) {
    Region& region = regions_[i];
    if (region.state != State::kFree) region.is_dma_ready = dma_map_.is_readable(region.base);
  }
}

std::span<const uint8_t> RegionTable::bytes_of(const BufRef& piece) const {
  // The worker checked the piece against its region when the client submitted it. A region is not
  // changed while a piece refers to it.
  LYRE_CHECK(piece.region < kRegionsMax);
  const Region& region = regions_[piece.region];
  if (region.state != State::kKnown) return {};
  LYRE_CHECK(piece.length <= region.bytes && piece.offset <= region.bytes - piece.length);
  return {region.base + piece.offset, piece.length};
}

void RegionTable::limit_parts(uint32_t bytes) {
  const uint64_t part = std::bit_floor(bytes);
  if (part < part_bytes_) part_bytes_ = part;  // not written again: the worker reads it
}

uint32_t RegionTable::segment_bytes(uint32_t region) const {
  const Region& entry = regions_[region];
  if (!entry.is_dma_ready) return 0;
  const uint64_t part =
      entry.page_iovas.empty() ? part_bytes_ : std::min(part_bytes_, entry.page_bytes);
  return static_cast<uint32_t>(std::min<uint64_t>(part, UINT32_MAX));
}

RegionTable::Run RegionTable::run_at(uint32_t region, uint64_t offset) const {
  const Region& entry = regions_[region];
  const uint64_t in_part = part_bytes_ - (offset & (part_bytes_ - 1));
  if (entry.page_iovas.empty()) {
    return {reinterpret_cast<uint64_t>(entry.base + offset),
            std::min(in_part, entry.bytes - offset)};
  }
  const uint64_t in_page = offset % entry.page_bytes;
  return {entry.page_iovas[offset / entry.page_bytes] + in_page,
          std::min(in_part, entry.page_bytes - in_page)};
}

}  // namespace lyre::io::dpdk
