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

/// Which memory the DMA devices of this process may reach: by its virtual address, which takes an
/// entry in the IOMMU or a word to the driver, or by the physical addresses of its pages, which
/// takes pins. Without such devices there is nothing to do and nothing is done.
/// Thread: the control thread, and workers for memory that it has added before and removes after
/// them. It is the one thing that workers share here, because the IOMMU's map is one for the
/// process and several workers may know the same client memory; hence a lock, which is only taken
/// when memory comes or goes, never for a packet, and not held while a system call takes its time.
class DmaMap {
 public:
  /// Maps all that is known for `device` too, and everything that comes later.
  /// False: the device cannot reach memory that is in use already.
  bool add_device(rte_device* device, bool is_vfio);
  void remove_device(rte_device* device, bool is_vfio);
  /// Thread: the control thread decides before any worker runs.
  void set_physical_addresses(bool is_physical) { is_physical_ = is_physical; }

  /// Each is followed by a remove(), whatever became of it; only the first for a `base` takes long.
  /// Fails: no device will read it, and the caller copies instead.
  Status add(const uint8_t* base, size_t bytes, size_t page_bytes);
  void remove(const uint8_t* base, size_t bytes);
  /// What devices know the pages of added memory by, when that is not its own address: one address
  /// a page. Valid until its last remove().
  std::span<const uint64_t> page_addresses(const uint8_t* base);

 private:
  struct Range {
    const uint8_t* base = nullptr;
    size_t bytes = 0;
    size_t page_bytes = 0;
    uint32_t users = 1;
    bool is_in_vfio = false;     ///< in the container that all VFIO devices of the process share
    bool is_registered = false;  ///< known to DPDK as external memory, which other drivers ask for
    Status status = Ok{};        ///< whether devices reach it
    PinnedPages pages = {};      ///< with physical addresses
  };
  Status make_reachable(Range& range);
  bool map(Range& range);
  void unmap(Range& range);
  static void unmap_vfio(Range& range);
  bool map_for_driver(Range& range, rte_device* device);
  /// The lock is held.
  Range* find(const uint8_t* base);

  std::mutex mutex_;
  bool is_physical_ = false;
  uint32_t vfio_devices_ = 0;
  std::vector<rte_device*> driver_devices_;
  std::vector<Range> ranges_;
};

}  // namespace lyre::io::dpdk
