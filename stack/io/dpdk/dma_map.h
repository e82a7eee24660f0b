#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "stack/base/result.h"
#include "stack/io/dpdk/pinned_pages.h"

struct rte_device;

namespace lyre::io::dpdk {

/// The memory that the DMA devices of this process can access. With virtual addresses it is mapped
/// in the IOMMU or announced to the driver; with physical addresses its pages are pinned. Without
/// such devices every call does nothing.
/// Thread: the control thread. Workers too, but only for memory that the control thread has added
/// before and removes after them.
/// It is the only object here that workers share: the IOMMU's mappings belong to the process, and
/// several workers may use the same client memory. Its lock is taken only when memory is added or
/// removed, never for a packet, and is not held during slow system calls.
class DmaMap {
 public:
  /// Maps all known memory for `device`, and all memory that is added later.
  /// False: the device cannot access memory that is already in use.
  bool add_device(rte_device* device, bool is_vfio);
  void remove_device(rte_device* device, bool is_vfio);
  /// Thread: the control thread, before any worker runs.
  void set_physical_addresses(bool is_physical) { is_physical_ = is_physical; }

  /// Every add() is followed by a remove(), also when it failed. Only the first add() for a `base`
  /// is slow.
  /// Fails: no device can read the memory, and the caller copies instead.
  Status add(const uint8_t* base, size_t bytes, size_t page_bytes);
  void remove(const uint8_t* base, size_t bytes);
  /// The physical addresses of the pages of added memory, one a page; empty where devices use
  /// virtual addresses. Valid until its last remove().
  std::span<const uint64_t> page_addresses(const uint8_t* base);

 private:
  struct Range {
    const uint8_t* base = nullptr;
    size_t bytes = 0;
    size_t page_bytes = 0;
    uint32_t users = 1;
    bool is_in_vfio = false;     ///< in the container that all VFIO devices of the process share
    bool is_registered = false;  ///< as external memory with DPDK, as other drivers require
    Status status = Ok{};        ///< whether devices can access it
    PinnedPages pages = {};      ///< with physical addresses
  };
  Status make_reachable(Range& range);
  bool map(Range& range);
  void unmap(Range& range);
  static void unmap_vfio(Range& range);
  bool map_for_driver(Range& range, rte_device* device);
  /// REQUIRES: the lock is held.
  Range* find(const uint8_t* base);

  std::mutex mutex_;
  bool is_physical_ = false;
  uint32_t vfio_devices_ = 0;
  std::vector<rte_device*> driver_devices_;
  std::vector<Range> ranges_;
};

}  // namespace lyre::io::dpdk
